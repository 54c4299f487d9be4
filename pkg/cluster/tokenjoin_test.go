// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/cluster/clusterinfo"
	"minik8s.io/minik8s/pkg/pki"
)

// guest is a machine that has been told a token, as far as the cluster sees of it.
func guest(r *runner, i *Invitation, name, ip string) (*Membership, Config) {
	m := &Membership{host: r.credentials.host, ca: r.credentials.ca.Cert, token: &TokenJoin{Token: i.Token.Token, CACertHashes: []string{i.CACertHash}}}
	return m, Config{Kubelet: KubeletConfig{NodeName: name, NodeIP: ip}}
}

// TestTokenJoin: what a token is good for, on a real API server, and what it is not.
func TestTokenJoin(t *testing.T) {
	t.Parallel()
	r := runCluster(t, 0)
	config, err := r.credentials.Client("test", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	admin := clientFor(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	i, err := createToken(ctx, admin, r.config, r.credentials.ca.Cert, time.Hour, "for tests")
	if err != nil {
		t.Fatal(err)
	}

	t.Run("discovery", func(t *testing.T) {
		data, err := clusterinfo.Fetch(ctx, r.credentials.host, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := clusterinfo.Verify(data, i.Token.Token, []string{i.CACertHash})
		if err != nil || info.Server != i.Server || !strings.Contains(string(info.About), r.config.Networking.PodSubnet) {
			t.Errorf("cluster-info says %+v, %v", info, err)
		}
	})
	nobody := clientFor(t, &rest.Config{Host: r.credentials.host, TLSClientConfig: rest.TLSClientConfig{CAData: r.credentials.ca.Cert}})
	holder := clientFor(t, &rest.Config{Host: r.credentials.host, BearerToken: i.Token.Token, TLSClientConfig: rest.TLSClientConfig{CAData: r.credentials.ca.Cert}})
	for _, tc := range []struct {
		name string
		call func() error
	}{
		{"others' ConfigMaps, by nobody", func() error {
			_, err := nobody.CoreV1().ConfigMaps("kube-public").List(ctx, metav1.ListOptions{})
			return err
		}},
		{"nodes, by the token", func() error { _, err := holder.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); return err }},
		{"secrets, by the token", func() error {
			_, err := holder.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
			return err
		}},
	} {
		if err := tc.call(); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}

	key := newKey(t)
	m, c := guest(r, i, "worker", "192.0.2.7")
	certify := func(m *Membership, c Config, key []byte) (kubernetes.Interface, string, error) {
		cert, err := m.certify(ctx, c, key)
		if err != nil {
			return nil, "", err
		}
		m.joined = pki.Pair{Cert: cert, Key: key}
		pods, err := m.podRange(ctx, c)
		client, cerr := kubernetes.NewForConfig(&rest.Config{Host: m.host, TLSClientConfig: rest.TLSClientConfig{CAData: m.ca, CertData: cert, KeyData: key}})
		return client, pods, errors.Join(err, cerr)
	}
	worker, pods, err := certify(m, c, key)
	if err != nil {
		t.Fatal(err)
	}
	if again, samePods, err := certify(m, c, key); err != nil || samePods != pods || again == nil {
		t.Errorf("a second try of the same machine: %q, want %q: %v", samePods, pods, err)
	}
	for _, tc := range []struct{ name, node, ip, want string }{
		{"name of a node that is there", "worker", "192.0.2.8", "has a node"},
		{"address of a node that is there", "other", "192.0.2.7", `address of node "worker"`},
		{"the API server's name", "kubernetes", "192.0.2.8", "the control plane"},
		{"loopback", "other", "127.0.0.2", "not an address"},
		{"an address of pods", "other", netip.MustParsePrefix(r.config.Networking.PodSubnet).Addr().Next().String(), "the cluster's pods"},
		{"no name", "a_b", "192.0.2.8", "no name"},
		{"no address", "other", "nowhere", "not the address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, c := guest(r, i, tc.node, tc.ip)
			if _, _, err := certify(m, c, newKey(t)); !errors.Is(err, errDenied) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}

	t.Run("several at once", func(t *testing.T) {
		const count = 5
		type result struct {
			pods string
			err  error
		}
		results := make(chan result, count)
		for n := range count {
			key := newKey(t)
			go func() {
				m, c := guest(r, i, fmt.Sprintf("many-%d", n), fmt.Sprintf("192.0.2.%d", 20+n))
				_, pods, err := certify(m, c, key)
				results <- result{pods, err}
			}()
		}
		seen := map[string]bool{pods: true}
		for range count {
			if got := <-results; got.err != nil || seen[got.pods] {
				t.Errorf("range %q, %v; there were %v", got.pods, got.err, seen)
			} else {
				seen[got.pods] = true
			}
		}
	})

	t.Run("removal", func(t *testing.T) {
		if err := RemoveJoined(ctx, admin, "worker"); err != nil {
			t.Fatal(err)
		}
		if err := RemoveJoined(ctx, admin, "worker"); !errors.Is(err, ErrNotJoined) {
			t.Errorf("again: %v", err)
		}
		refused := func(when string) {
			t.Helper()
			err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
				_, err := worker.CoreV1().Nodes().Get(ctx, "worker", metav1.GetOptions{})
				return apierrors.IsUnauthorized(err), nil
			})
			if err != nil {
				t.Errorf("%s: its certificate is accepted", when)
			}
		}
		refused("removed")
		<-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // certificates know whole seconds only
		m, c := guest(r, i, "worker", "192.0.2.9")
		if _, _, err := certify(m, c, newKey(t)); err != nil {
			t.Errorf("another machine of the name: %v", err)
		}
		refused("another has the name")
	})

	t.Run("an ended token", func(t *testing.T) {
		id, _, _ := strings.Cut(i.Token.Token, ".")
		secret, err := admin.CoreV1().Secrets("kube-system").Get(ctx, "bootstrap-token-"+id, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := tokenOf(secret); !ok || cmp.Diff(i.Token, got) != "" {
			t.Errorf("the token is kept as:\n%s", cmp.Diff(i.Token, got))
		}
		secret.Data["expiration"] = []byte(time.Now().Add(-time.Second).Format(time.RFC3339))
		if _, err := admin.CoreV1().Secrets("kube-system").Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := holder.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
			return apierrors.IsUnauthorized(err), nil
		})
		if err != nil {
			t.Fatal("the token is accepted")
		}
		m, c := guest(r, i, "late", "192.0.2.50")
		var p *Problem
		if _, err := m.certify(ctx, c, newKey(t)); !errors.As(err, &p) || !strings.Contains(p.Cause, "not accepted") {
			t.Errorf("error %v", err)
		}
		err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := admin.CoreV1().Secrets("kube-system").Get(ctx, secret.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
		if err != nil {
			t.Error("the token is still there")
		}
	})
}

func newKey(t *testing.T) []byte {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestMayClaim(t *testing.T) {
	t.Parallel()
	node := func(name string, addresses ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		return n
	}
	for _, tc := range []struct {
		name   string
		nodes  []corev1.Node
		joined map[string]string
		want   string
	}{
		{"new", nil, nil, ""},
		{"removed before", nil, map[string]string{"n": "192.0.2.7 10.244.1.0/24 other"}, ""},
		{"cut off before", []corev1.Node{node("n")}, map[string]string{"n": "192.0.2.7 10.244.1.0/24 key"}, ""},
		{"another machine's", []corev1.Node{node("n")}, map[string]string{"n": "192.0.2.7 10.244.1.0/24 other"}, "has a node"},
		{"one of the control plane's machine", []corev1.Node{node("n")}, map[string]string{"n": "192.0.2.7 10.244.1.0/24 " + besideKey}, "has a node"},
		{"made by an administrator", []corev1.Node{node("n")}, map[string]string{"n": "192.0.2.7 10.244.1.0/24"}, "has a node"},
		{"registered by itself", []corev1.Node{node("n")}, nil, "has a node"},
		{"address of another", []corev1.Node{node("o", "192.0.2.7")}, nil, "the address of"},
		{"address that another has joined with", []corev1.Node{node("o")}, map[string]string{"o": "192.0.2.7 10.244.1.0/24"}, "the address of"},
		{"address of one that was removed", nil, map[string]string{"o": "192.0.2.7 10.244.1.0/24"}, ""},
		{"beside another", []corev1.Node{node("o", "192.0.2.8")}, map[string]string{"o": "192.0.2.8 10.244.1.0/24"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := mayClaim(joiner{"n", []netip.Addr{netip.MustParseAddr("192.0.2.7")}, "key"}, tc.nodes, tc.joined)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestServerURL(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://192.0.2.1:6443": "https://192.0.2.1:6443", "192.0.2.1:7000": "https://192.0.2.1:7000", "https://api.example.com": "https://api.example.com:6443",
		"http://192.0.2.1": "", "https://": "", "": "",
	} {
		if got, _, err := serverURL(given); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", given, got, err, want)
		}
	}
}

func TestWithJoining(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		given, want []string
	}{
		{"default", nil, []string{"*", "bootstrap-signer-controller", "token-cleaner-controller"}},
		{"all but one", []string{"*", "-token-cleaner-controller"}, []string{"*", "-token-cleaner-controller", "bootstrap-signer-controller", "token-cleaner-controller"}},
		{"only one", []string{"deployment"}, []string{"deployment"}},
	} {
		if diff := cmp.Diff(tc.want, withJoining(tc.given)); diff != "" {
			t.Errorf("%s:\n%s", tc.name, diff)
		}
	}
}
