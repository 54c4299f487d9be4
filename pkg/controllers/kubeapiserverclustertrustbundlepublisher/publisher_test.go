// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubeapiserverclustertrustbundlepublisher

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
	"minik8s.io/minik8s/pkg/pki"
)

func bundle(name, signer, content string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: content},
	}
}

// name ends with the first twelve bytes of the SHA-256 of "PEM".
const name = "kubernetes.io:kube-apiserver-serving:384fb9a44fabe158be2757b9"

func TestName(t *testing.T) {
	if got := Name(SignerName, []byte("PEM")); got != name {
		t.Errorf("name is %q, want %q", got, name)
	}
}

func TestAnchors(t *testing.T) {
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(pki.Request{CommonName: "server", Hosts: []string{"server"}})
	if err != nil {
		t.Fatal(err)
	}
	commented := append([]byte("our CA\n"), ca.Cert...)
	for title, tt := range map[string]struct{ bundle, want []byte }{
		"CA":                    {ca.Cert, ca.Cert},
		"with words":            {commented, commented},
		"a chain":               {append(bytes.Clone(leaf.Cert), ca.Cert...), ca.Cert},
		"a server, pinned":      {leaf.Cert, nil},
		"nothing to be trusted": {nil, nil},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(string(tt.want), string(anchors(tt.bundle))); diff != "" {
				t.Errorf("anchors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReconcile(t *testing.T) {
	other := bundle("example.com:s:b", "example.com/s", "other")
	for title, objects := range map[string][]client.Object{
		"missing":     {other},
		"changed":     {other, bundle(name, SignerName, "old")},
		"of the past": {other, bundle("kubernetes.io:kube-apiserver-serving:old", SignerName, "old")},
	} {
		t.Run(title, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: objects,
				Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: name}},
				New:     func(c client.Client) reconcile.Reconciler { return &Reconciler{Client: c, RootCA: []byte("PEM")} },
				Want: func(ctx context.Context, c client.Client) error {
					var all certificatesv1.ClusterTrustBundleList
					if err := c.List(ctx, &all); err != nil {
						return err
					}
					got := map[string]string{}
					for _, b := range all.Items {
						got[b.Name] = b.Spec.TrustBundle
					}
					if diff := cmp.Diff(map[string]string{"example.com:s:b": "other", name: "PEM"}, got); diff != "" {
						return fmt.Errorf("bundles (-want +got):\n%s", diff)
					}
					return nil
				},
			})
		})
	}
}
