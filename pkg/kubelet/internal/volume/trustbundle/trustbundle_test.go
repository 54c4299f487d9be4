// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package trustbundle

import (
	"context"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

func certificate(text string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
}

func bundle(name, signer string, labels map[string]string, certificates ...string) *certificatesv1.ClusterTrustBundle {
	b := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer}}
	for _, c := range certificates {
		b.Spec.TrustBundle += "between\n" + certificate(c)
	}
	return b
}

func TestSelect(t *testing.T) {
	t.Parallel()
	all := []any{
		bundle("plain", "", nil, "b", "a", "b"),
		bundle("e.com:one", "e.com/s", map[string]string{"alive": "true"}, "c", "d"),
		bundle("e.com:two", "e.com/s", map[string]string{"alive": "false"}, "d", "e"),
		bundle("other", "e.com/t", map[string]string{"alive": "true"}, "f"),
	}
	name := func(n string, optional *bool) *corev1.ClusterTrustBundleProjection {
		return &corev1.ClusterTrustBundleProjection{Name: &n, Optional: optional}
	}
	signer := func(s *metav1.LabelSelector, optional *bool) *corev1.ClusterTrustBundleProjection {
		return &corev1.ClusterTrustBundleProjection{SignerName: new("e.com/s"), LabelSelector: s, Optional: optional}
	}
	alive := &metav1.LabelSelector{MatchLabels: map[string]string{"alive": "true"}}
	nothing := &metav1.LabelSelector{MatchLabels: map[string]string{"alive": "unknown"}}
	for _, tc := range []struct {
		name string
		of   *corev1.ClusterTrustBundleProjection
		want string
		err  string
	}{
		{"a name, each once", name("plain", nil), certificate("a") + certificate("b"), ""},
		{"a name that is not there", name("none", nil), "", `while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "none" not found`},
		{"nor need be", name("none", new(true)), "", ""},
		{"which must be", name("none", new(false)), "", "not found"},
		{"a signer with labels", signer(alive, nil), certificate("c") + certificate("d"), ""},
		{"all of a signer", signer(&metav1.LabelSelector{}, nil), certificate("c") + certificate("d") + certificate("e"), ""},
		{"a signer without selector", signer(nil, nil), "", "combination of signerName and labelSelector matched zero ClusterTrustBundles"},
		{"which need not match", signer(nil, new(true)), "", ""},
		{"labels of nothing", signer(nothing, nil), "", "matched zero"},
		{"a bad selector", signer(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}, new(true)), "", "while parsing label selector"},
		{"neither", &corev1.ClusterTrustBundleProjection{}, "", "either name or signerName must be set"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := Select(tc.of, all)
			if err == nil && tc.err != "" || err != nil && (tc.err == "" || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("got error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A pod is told of changes from its first question on, and not before it or after it has gone.
func TestGet(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(bundle("plain", "", nil, "a"))
	changed := make(chan types.UID, 10)
	m, err := New(client, func(uid types.UID) { changed <- uid })
	if err != nil {
		t.Fatal(err)
	}
	defer m.Stop()
	p := &corev1.ClusterTrustBundleProjection{Name: new("plain")}
	if got, err := m.Get(t.Context(), "u", p); err != nil || string(got) != certificate("a") {
		t.Fatalf("%s, %v", got, err)
	}
	bundles := client.CertificatesV1().ClusterTrustBundles()
	if _, err := bundles.Update(t.Context(), bundle("plain", "", nil, "b"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if uid := <-changed; uid != "u" {
		t.Errorf("%s is told", uid)
	}
	if got, err := m.Get(t.Context(), "u", p); err != nil || string(got) != certificate("b") {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := m.Get(t.Context(), "v", p); err != nil {
		t.Fatal(err)
	}
	m.Forget("u")
	if err := bundles.Delete(t.Context(), "plain", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if uid := <-changed; uid != "v" {
		t.Errorf("%s is told", uid)
	}
}

// TestMain has errors told, but not the process slowed down by them: in a bubble of synctest that is a sleep of as many years as lie
// between its clock and this machine's, and client-go, when it looks for mutations, wakes in each second of them.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}

// An API server that does not answer is told apart from a bundle that is not there.
func TestGet_Unavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependReactor("list", "clustertrustbundles", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("away")
		})
		m, err := New(client, func(types.UID) {})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Stop()
		p := &corev1.ClusterTrustBundleProjection{Name: new("plain"), Optional: new(true)}
		if _, err := m.Get(t.Context(), "u", p); !errors.Is(err, plugin.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.Get(ctx, "u", p); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
