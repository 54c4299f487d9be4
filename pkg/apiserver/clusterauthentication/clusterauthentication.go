// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterauthentication keeps the ConfigMap extension-apiserver-authentication, by which aggregated servers know whom
// this server trusts: the CA of its clients, and its own certificate when it passes their requests on. Touch it when they
// need to know more.
package clusterauthentication

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
)

// Name is that of the ConfigMap, in kube-system.
const Name = "extension-apiserver-authentication"

// period is how often the ConfigMap is looked at without a reason.
const period = time.Minute

// Trust is whom this server trusts.
type Trust struct {
	// ClientCA signs client certificates; may be nil.
	ClientCA dynamiccertificates.CAContentProvider
	// RequestHeader names the proxies that may say who the user is; may be nil.
	RequestHeader *authenticatorfactory.RequestHeaderConfig
}

// changed is told when a CA is.
type changed chan struct{}

// Enqueue implements dynamiccertificates.Listener.
func (c changed) Enqueue() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Keep keeps the ConfigMap until ctx ends.
func Keep(ctx context.Context, client kubernetes.Interface, t Trust) {
	now := make(changed, 1)
	if t.ClientCA != nil {
		t.ClientCA.AddListener(now)
	}
	if t.RequestHeader != nil && t.RequestHeader.CAContentProvider != nil {
		t.RequestHeader.CAContentProvider.AddListener(now)
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		// Another server may write at the same time, and at first there is no namespace.
		var last error
		err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, period, true, func(ctx context.Context) (bool, error) {
			last = write(ctx, client, t)
			return last == nil, nil
		})
		if err != nil && ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, last, "Writing the authentication of the cluster", "configMap", Name)
		}
		select {
		case <-ctx.Done():
			return
		case <-now:
		case <-ticker.C:
		}
	}
}

func write(ctx context.Context, client kubernetes.Interface, t Trust) error {
	all := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	have, err := all.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		data, derr := merged(nil, t, time.Now())
		if derr != nil {
			return derr
		}
		_, err = all.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name}, Data: data}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	data, err := merged(have.Data, t, time.Now())
	if err != nil || maps.Equal(have.Data, data) {
		return err
	}
	have.Data = data
	_, err = all.Update(ctx, have, metav1.UpdateOptions{})
	return err
}

// merged adds what t trusts to what the ConfigMap has: other servers of the cluster may trust more. Certificates leave it when
// they expire.
func merged(have map[string]string, t Trust, now time.Time) (map[string]string, error) {
	data := map[string]string{}
	if bundle := certificates(now, have["client-ca-file"], bundleOf(t.ClientCA)); bundle != "" {
		data["client-ca-file"] = bundle
	}
	h := t.RequestHeader
	if h == nil {
		h = &authenticatorfactory.RequestHeaderConfig{}
	}
	bundle := certificates(now, have["requestheader-client-ca-file"], bundleOf(h.CAContentProvider))
	if bundle == "" {
		return data, nil
	}
	data["requestheader-client-ca-file"] = bundle
	for key, value := range map[string]headerrequest.StringSliceProvider{
		"requestheader-username-headers":     h.UsernameHeaders,
		"requestheader-uid-headers":          h.UIDHeaders,
		"requestheader-group-headers":        h.GroupHeaders,
		"requestheader-extra-headers-prefix": h.ExtraHeaderPrefixes,
		"requestheader-allowed-names":        h.AllowedClientNames,
	} {
		all := []string{} // [] means any name, and is written
		if have[key] != "" {
			if err := json.Unmarshal([]byte(have[key]), &all); err != nil {
				return nil, fmt.Errorf("reading %s of ConfigMap %s: %w", key, Name, err)
			}
		}
		if value != nil {
			for _, v := range value.Value() {
				if !slices.Contains(all, v) {
					all = append(all, v)
				}
			}
		}
		if key == "requestheader-uid-headers" && len(all) == 0 {
			continue
		}
		encoded, err := json.Marshal(all)
		if err != nil {
			return nil, err
		}
		data[key] = string(encoded)
	}
	return data, nil
}

func bundleOf(p dynamiccertificates.CAContentProvider) string {
	if p == nil {
		return ""
	}
	return string(p.CurrentCABundleContent())
}

// certificates joins bundles, each certificate once, without the expired. One that cannot be read is as good as empty.
func certificates(now time.Time, bundles ...string) string {
	seen := map[string]bool{}
	var out []byte
	for _, bundle := range bundles {
		all, err := cert.ParseCertsPEM([]byte(bundle))
		if err != nil {
			continue
		}
		for _, c := range all {
			if !seen[string(c.Raw)] && now.Before(c.NotAfter) {
				seen[string(c.Raw)] = true
				out = append(out, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw})...)
			}
		}
	}
	return string(out)
}
