// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"minik8s.io/minik8s/pkg/pki"
)

func TestCredentials_KeptAndRenewed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pki")
	var published []pki.Pair
	publish := func(p pki.Pair) error { //nolint:unparam // as renewFiles wants it
		published = append(published, p)
		return nil
	}
	var cas []pki.Pair
	start := func(lifetime time.Duration) time.Time {
		t.Helper()
		c, err := loadCredentials(dir, "https://x", lifetime)
		if err != nil {
			t.Fatal(err)
		}
		cas = append(cas, c.ca.Pair)
		next, err := c.renewFiles(publish)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	start(0)
	next := start(0)
	if diff := cmp.Diff(cas[0], cas[1]); diff != "" {
		t.Error("the CA has changed between two starts")
	}
	if diff := cmp.Diff(published[0], published[1]); diff != "" {
		t.Error("a fresh certificate was renewed")
	}
	if left := time.Until(next); left < pki.LeafLifetime/2 || left > pki.LeafLifetime {
		t.Errorf("looked at again in %v", left)
	}
	cert, err := pki.ParseCertificate(published[0].Cert)
	if err != nil {
		t.Fatal(err)
	}
	if before := time.Since(cert.NotBefore); before < 23*time.Hour {
		t.Errorf("the user's certificate is valid since %v: a clock that is set back ends it", before)
	}
	info, err := os.Stat(filepath.Join(dir, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the CA's key has mode %o", info.Mode().Perm())
	}
	if info, err = os.Stat(filepath.Join(dir, "admin.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the user's key: %v, %v", info, err)
	}
	// Somebody has put another key there.
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "admin.pem"), append(key, published[1].Cert...)); err != nil {
		t.Fatal(err)
	}
	start(0)
	if _, err := tls.X509KeyPair(published[2].Cert, published[2].Key); err != nil {
		t.Errorf("certificate and key do not fit: %v", err)
	}
}

// unusedPort is a port that nobody uses now.
func unusedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// newRunner makes a control plane that can be run. Ready is closed once it has told that it is Ready.
func newRunner(t *testing.T, lifetime time.Duration) (r *runner, ready chan struct{}) {
	t.Helper()
	none := 0
	ready = make(chan struct{})
	c := Config{
		Name: "test", DataDir: t.TempDir(), Nodes: &none, APIPort: unusedPort(t), BindAddress: "127.0.0.1",
		Etcd:       EtcdConfig{UnsafeNoFsync: true},
		Networking: NetworkingConfig{PodSubnet: "10.244.0.0/16", ServiceSubnet: "10.96.0.0/16", DNSDomain: "cluster.local"},
		Kubelet:    KubeletConfig{NodeName: "own", NodeIP: "192.0.2.1"},
	}
	options := Options{Progress: func(string) {}, Ready: func() { close(ready) }, CertificateLifetime: lifetime}
	return &runner{config: c, fleet: newFleet(c, nil), served: func() error { return nil }, options: options}, ready
}

// runCluster runs a control plane until the test ends.
func runCluster(t *testing.T, lifetime time.Duration) *runner {
	t.Helper()
	r, ready := newRunner(t, lifetime)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the cluster ended with: %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("the cluster did not start: %v", err)
	}
	return r
}

func clientFor(t *testing.T, c *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// served is the certificate that the API server shows.
func served(t *testing.T, r *runner) *x509.Certificate {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.credentials.ca.Cert)
	conn, err := tls.Dial("tcp", r.listener.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "kubernetes"})
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// TestRun_CertificatesEnd: a cluster whose certificates last for seconds works for longer than that: parts of it, on connections
// old and new, and its users.
func TestRun_CertificatesEnd(t *testing.T) {
	t.Parallel()
	const lifetime = 12 * time.Second
	r := runCluster(t, lifetime)
	config, err := r.credentials.Client("test", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	client := clientFor(t, config)
	before := served(t, r)
	if life := time.Until(before.NotAfter); life > lifetime {
		t.Fatalf("the API server's certificate lasts %v", life)
	}
	old, err := clientcmd.BuildConfigFromFlags("", KubeconfigPath(r.config))
	if err != nil {
		t.Fatal(err)
	}
	watch, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()

	end := before.NotAfter.Add(lifetime) // the second certificate ends then at the latest
	calls := 0
	err = wait.PollUntilContextCancel(t.Context(), 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		calls++
		_, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return time.Now().After(end), err
	})
	if err != nil {
		t.Fatalf("call %d: %v", calls, err)
	}
	if after := served(t, r); !after.NotAfter.After(end) {
		t.Errorf("the API server's certificate ends at %v, before %v", after.NotAfter, end)
	}
	if _, err := clientFor(t, old).CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err == nil {
		t.Error("a user's certificate that has ended is accepted: this test sees nothing")
	}
	renewed, err := clientcmd.BuildConfigFromFlags("", KubeconfigPath(r.config))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientFor(t, renewed).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("with the renewed kubeconfig: %v", err)
	}
	// The watch that began with the first certificate.
	seen := false
	for timeout := time.After(20 * time.Second); !seen; {
		select {
		case e, open := <-watch.ResultChan():
			if !open {
				t.Fatal("the watch has ended")
			}
			n, ok := e.Object.(*corev1.Namespace)
			seen = ok && n.Name == "late"
		case <-timeout:
			t.Fatal("the watch does not see what happens")
		}
	}
	// Controllers have informers from the start, and write with certificates of now.
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts("late").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		t.Errorf("controllers do not work any more: %v", err)
	}
	frontProxy, err := os.ReadFile(r.credentials.frontProxy().path)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err := pki.ParseCertificate(frontProxy); err != nil || !cert.NotAfter.After(time.Now()) {
		t.Errorf("the front proxy's certificate has ended: %v", err)
	}
}

// TestKeepFiles_TriesAgain: what cannot be published, because the disk is full, does not end the process.
func TestKeepFiles_TriesAgain(t *testing.T) {
	t.Parallel()
	c, err := loadCredentials(filepath.Join(t.TempDir(), "pki"), "https://x", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	full := errors.New("no space left on device")
	tried := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		done <- c.keepFiles(ctx, func(pki.Pair) error {
			tried <- struct{}{}
			return fmt.Errorf("writing: %w", full)
		})
	}()
	<-tried
	cancel()
	if err := <-done; err != nil {
		t.Errorf("it ended with: %v", err)
	}
	if _, err := c.renewFiles(func(pki.Pair) error { return full }); !errors.Is(err, full) {
		t.Errorf("error is %v", err)
	}
}

func TestServingHosts_Complete(t *testing.T) {
	t.Parallel()
	c, err := loadCredentials(filepath.Join(t.TempDir(), "pki"), "https://x", 0)
	if err != nil {
		t.Fatal(err)
	}
	hosts := servingHosts("cluster.local", apiAddresses([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")}, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")}), "host", []string{"extra"})
	cert, err := c.serving(hosts).Certificate()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []string{"kubernetes.default.svc", "127.0.0.1", "10.96.0.1", "192.0.2.1", "host", "extra"} {
		if err := cert.Leaf.VerifyHostname(h); err != nil {
			t.Error(err)
		}
	}
}
