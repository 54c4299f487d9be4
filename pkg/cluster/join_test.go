// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"

	"minik8s.io/minik8s/pkg/apiserver/authorization/policy"
	nodes "minik8s.io/minik8s/pkg/node"
	"minik8s.io/minik8s/pkg/pki"
)

// machine is another machine that has joined, as far as its certificates go.
type machine struct {
	*nodeCertificates
	joined, renewed kubernetes.Interface // by the certificate of the kubeconfig, by the node's own
	config          *rest.Config
	dir             string
	stop            func()
}

// invite makes a kubeconfig for a machine, and reads it there.
func invite(t *testing.T, r *runner, name string) *Membership {
	t.Helper()
	data, err := Join(t.Context(), r.config, name, "192.0.2.7")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := ReadJoin(path)
	if err != nil {
		t.Fatal(err)
	}
	m.Config.DataDir = t.TempDir()
	m.host = r.credentials.host // the test is on the same machine
	return m
}

// join makes a machine join, or start again.
func join(t *testing.T, m *Membership) *machine {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	certificates, config, err := newNodeCertificates(ctx, m.Config, m.host, m.ca, m.joined)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- certificates.run(ctx) }()
	stop := func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	pair, err := tls.X509KeyPair(m.joined.Cert, m.joined.Key)
	if err != nil {
		t.Fatal(err)
	}
	first, err := clientConfig(m.host, m.ca, func() (*tls.Certificate, error) { return &pair, nil })
	if err != nil {
		t.Fatal(err)
	}
	return &machine{certificates, clientFor(t, first), clientFor(t, config), config, nodeKeysDir(m.Config, m.joined), stop}
}

// waitForOwn waits until a machine has certificates whose keys were made on it.
func (m *machine) waitForOwn(t *testing.T) {
	t.Helper()
	for name, of := range map[string]certificate.Manager{"client": m.client, "serving": m.serving} {
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 60*time.Second, true, func(context.Context) (bool, error) {
			cert := of.Current()
			return cert != nil && len(cert.Leaf.ExtKeyUsage) == 1, nil // that of the kubeconfig has two
		})
		if err != nil {
			t.Fatalf("the machine got no certificate of its own as %s: %v", name, err)
		}
	}
}

// TestJoin: what a machine that has joined may do, how it gets certificates of its own, and that it is out when its Node is
// deleted, with all that it ever got.
func TestJoin(t *testing.T) {
	t.Parallel()
	r := runCluster(t, 0)
	invited := invite(t, r, "worker")
	before := filepath.Join(invited.Config.DataDir, "pki", "node-before")
	if err := os.MkdirAll(before, 0o700); err != nil {
		t.Fatal(err)
	}
	m := join(t, invited)
	defer m.stop()
	m.waitForOwn(t)
	if _, err := os.Stat(before); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("keys of an earlier kubeconfig are still there: %v", err)
	}

	serving, err := m.servingCertificate()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"worker", "192.0.2.7"} {
		if err := serving.Leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	err = filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	ctx := t.Context()
	proxyConfig := rest.CopyConfig(m.config)
	proxyConfig.Impersonate.UserName = policy.ProxyUser
	proxy := clientFor(t, proxyConfig)
	adminConfig := rest.CopyConfig(m.config)
	adminConfig.Impersonate.UserName, adminConfig.Impersonate.Groups = "kubernetes-admin", []string{"system:masters"}
	all := metav1.ListOptions{}
	for _, tc := range []struct {
		name  string
		call  func() error
		allow bool
	}{
		{"own node", func() error { _, err := m.renewed.CoreV1().Nodes().Get(ctx, "worker", metav1.GetOptions{}); return err }, true},
		{"own node, by the kubeconfig", func() error { _, err := m.joined.CoreV1().Nodes().Get(ctx, "worker", metav1.GetOptions{}); return err }, true},
		{"all pods", func() error { _, err := m.renewed.CoreV1().Pods("").List(ctx, all); return err }, false},
		{"secrets", func() error { _, err := m.renewed.CoreV1().Secrets("").List(ctx, all); return err }, false},
		{"a volume", func() error {
			_, err := m.renewed.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}, metav1.CreateOptions{})
			return err
		}, false},
		{"administration", func() error { _, err := clientFor(t, adminConfig).CoreV1().Secrets("").List(ctx, all); return err }, false},
		{"Services, as proxy", func() error { _, err := proxy.CoreV1().Services("").List(ctx, all); return err }, true},
		{"all pods, as proxy", func() error { _, err := proxy.CoreV1().Pods("").List(ctx, all); return err }, false},
		{"a volume, as proxy", func() error {
			_, err := proxy.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}, metav1.CreateOptions{})
			return err
		}, false},
	} {
		if err := tc.call(); tc.allow && err != nil || !tc.allow && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want allowed = %t", tc.name, err, tc.allow)
		}
	}

	config, err := r.credentials.Client("test", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	if err := clientFor(t, config).CoreV1().Nodes().Delete(ctx, "worker", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		for name, client := range map[string]kubernetes.Interface{"kubeconfig": m.joined, "node's own": m.renewed, "proxy": proxy} {
			err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
				_, err := client.CoreV1().Services("").List(ctx, all)
				return apierrors.IsUnauthorized(err), nil
			})
			if err != nil {
				t.Errorf("%s: the certificate of the %s is accepted", when, name)
			}
		}
	}
	refused("the node is removed")
	// A certificate knows whole seconds only: what was issued in the second of the registration counts as after it.
	untilNext := time.Until(time.Now().Truncate(time.Second).Add(time.Second))
	<-time.After(untilNext)
	again := join(t, invite(t, r, "worker"))
	defer again.stop()
	again.waitForOwn(t)
	if _, err := again.renewed.CoreV1().Nodes().Get(ctx, "worker", metav1.GetOptions{}); err != nil {
		t.Errorf("the machine that joined again: %v", err)
	}
	refused("a node of its name has joined")
}

// TestNodeCertificates_Renewed: a node whose certificates are about to end gets new ones, and works on when they have ended.
func TestNodeCertificates_Renewed(t *testing.T) {
	t.Parallel()
	r := runCluster(t, 0)
	invited := invite(t, r, "worker")
	// These last for seconds, as if the node had them for long.
	const left = 30 * time.Second
	dir := nodeKeysDir(invited.Config, invited.joined)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ends := time.Time{}
	for name, request := range map[string]pki.Request{
		"kubelet-client":  {CommonName: "system:node:worker", Organizations: []string{nodeGroup}, Lifetime: left},
		"kubelet-serving": {CommonName: "system:node:worker", Organizations: []string{nodeGroup}, Hosts: []string{"worker"}, Lifetime: left},
	} {
		pair, err := r.credentials.ca.Issue(request)
		if err != nil {
			t.Fatal(err)
		}
		store, err := certificate.NewFileStore(name, dir, dir, "", "")
		if err != nil {
			t.Fatal(err)
		}
		cert, err := store.Update(pair.Cert, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		ends = cert.Leaf.NotAfter
	}
	m := join(t, invited)
	defer m.stop()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*left, true, func(ctx context.Context) (bool, error) {
		if _, err := m.renewed.CoreV1().Nodes().Get(ctx, "worker", metav1.GetOptions{}); err != nil {
			return false, err // at no time it is refused
		}
		if time.Now().Before(ends.Add(time.Second)) {
			return false, nil
		}
		client, serving := m.client.Current(), m.serving.Current()
		return client != nil && serving != nil && client.Leaf.NotAfter.After(ends) && serving.Leaf.NotAfter.After(ends), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNodeCertificates_Kept: a node that starts again has its certificates, and one with a new kubeconfig begins anew.
func TestNodeCertificates_Kept(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{DataDir: t.TempDir(), Kubelet: KubeletConfig{NodeName: "n", NodeIP: "192.0.2.7"}}
	issue := func(lifetime time.Duration) pki.Pair {
		t.Helper()
		request := joinRequest("n", []netip.Addr{netip.MustParseAddr("192.0.2.7")})
		request.Lifetime = lifetime
		pair, err := ca.Issue(request)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	open := func(joined pki.Pair) *nodeCertificates {
		t.Helper()
		n, _, err := newNodeCertificates(t.Context(), c, "https://192.0.2.1", ca.Cert, joined)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	joined := issue(-time.Second)
	if _, err := open(joined).clientCertificate(); !errors.Is(err, errNodeCertificateEnded) {
		t.Errorf("with a kubeconfig that has ended: %v", err)
	}
	store, err := certificate.NewFileStore("kubelet-client", nodeKeysDir(c, joined), nodeKeysDir(c, joined), "", "")
	if err != nil {
		t.Fatal(err)
	}
	own := issue(time.Hour)
	if _, err := store.Update(own.Cert, own.Key); err != nil {
		t.Fatal(err)
	}
	cert, err := open(joined).clientCertificate()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := pki.ParseCertificate(own.Cert); err != nil || !cert.Leaf.Equal(want) {
		t.Errorf("it is not the one on the disk: %v", err)
	}
	anew := issue(time.Hour)
	if cert, err = open(anew).clientCertificate(); err != nil {
		t.Fatal(err)
	}
	if want, err := pki.ParseCertificate(anew.Cert); err != nil || !cert.Leaf.Equal(want) {
		t.Errorf("it is not that of the new kubeconfig: %v", err)
	}
	// It may be the wrong one, so the keys from before stay until the cluster has answered: TestJoin.
	if cert, err = open(joined).clientCertificate(); err != nil {
		t.Fatal(err)
	}
	if want, err := pki.ParseCertificate(own.Cert); err != nil || !cert.Leaf.Equal(want) {
		t.Errorf("after another kubeconfig was tried, it is not the one on the disk: %v", err)
	}
}

func TestServingRefusal(t *testing.T) {
	t.Parallel()
	joined := map[string]string{"worker": "192.0.2.7 10.244.1.0/24", "other": "192.0.2.8 10.244.2.0/24"}
	for _, tc := range []struct {
		name, user, subject string
		dns                 []string
		ips                 []string
		want                string
	}{
		{"its own", "system:node:worker", "system:node:worker", []string{"worker"}, []string{"192.0.2.7"}, ""},
		{"another's name", "system:node:worker", "system:node:worker", []string{"other"}, nil, "is not the node's name"},
		{"the API server's", "system:node:worker", "system:node:worker", []string{"worker", "kubernetes.default.svc"}, nil, "is not the node's name"},
		{"another's address", "system:node:worker", "system:node:worker", []string{"worker"}, []string{"192.0.2.7", "192.0.2.8"}, "not 192.0.2.8"},
		{"as another", "system:node:worker", "system:node:other", []string{"other"}, nil, "asks for a certificate of"},
		{"never joined", "system:node:stray", "system:node:stray", []string{"stray"}, nil, "no node that has joined"},
		{"no names", "system:node:worker", "system:node:worker", nil, nil, "subjectAltName"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			keyPEM, err := pki.NewKey()
			if err != nil {
				t.Fatal(err)
			}
			key, err := pki.ParseKey(keyPEM)
			if err != nil {
				t.Fatal(err)
			}
			template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: tc.subject, Organization: []string{"system:nodes"}}, DNSNames: tc.dns}
			for _, ip := range tc.ips {
				template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
			}
			der, err := x509.CreateCertificateRequest(nil, template, key)
			if err != nil {
				t.Fatal(err)
			}
			err = servingRefusal(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), Username: tc.user, Groups: []string{"system:nodes"},
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			}}, joined)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("refused because %v, want %q", err, tc.want)
			}
		})
	}
}

// Join of a cluster that has not been up, or whose data are gone, makes nothing: what it made would be taken for a cluster's.
func TestJoin_NoData(t *testing.T) {
	t.Parallel()
	c := joining()
	c.DataDir = filepath.Join(t.TempDir(), "data")
	var p *Problem
	if _, err := Join(t.Context(), c, "worker", "192.0.2.7"); !errors.As(err, &p) {
		t.Errorf("error is %v, want a Problem", err)
	}
	if _, err := os.Lstat(c.DataDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data directory is there: %v", err)
	}
}

// joining are settings of a cluster that machines join.
func joining() Config {
	return Config{
		Networking: NetworkingConfig{PodSubnet: "10.244.0.0/16", ServiceSubnet: "10.96.0.0/16", DNSDomain: "cluster.local"},
		Kubelet:    KubeletConfig{NodeName: "own"}, APIServer: APIServerConfig{CertSANs: []string{"api.example.com"}},
	}
}

func TestCheckJoin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, node, ip, want string }{
		{"fine", "worker", "192.0.2.7", ""},
		{"the control plane's node", "own", "192.0.2.7", "of the control plane"},
		{"the API server's name", "kubernetes.default.svc", "192.0.2.7", "of the control plane"},
		{"another of its names", "api.example.com", "192.0.2.7", "of the control plane"},
		{"its address", "worker", "192.0.2.1", "of the control plane"},
		{"its cluster IP", "worker", "10.96.0.1", "of the control plane"},
		{"loopback", "worker", "127.0.0.1", "of the control plane"},
		{"a further node of its machine", "own-2", "192.0.2.7", "of a node of its machine"},
		{"the address of one", "worker", "10.196.0.2", "of a node of its machine"},
		{"no name", "Worker_1", "192.0.2.7", "no name for a node"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := joining()
			c.DataDir = t.TempDir()
			if err := nodesDir(c).Write(nodes.Node{Name: "own-2", IP: netip.MustParseAddr("10.196.0.2"), State: nodes.Stopped}); err != nil {
				t.Fatal(err)
			}
			err := checkJoin(c, []netip.Addr{netip.MustParseAddr("192.0.2.1")}, tc.node, []netip.Addr{netip.MustParseAddr(tc.ip)})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestRegister_AtTheSameTime: machines that join at once get ranges of their own, on a real API server.
func TestRegister_AtTheSameTime(t *testing.T) {
	t.Parallel()
	r := runCluster(t, 0)
	config, err := r.credentials.Client("test", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	client := clientFor(t, config)
	const count = 6
	type result struct {
		pods string
		err  error
	}
	results := make(chan result, count)
	for i := range count {
		go func() {
			pods, err := register(t.Context(), client, joining(), joiner{name: fmt.Sprintf("worker-%d", i), ips: []netip.Addr{netip.MustParseAddr("192.0.2.7")}})
			results <- result{pods, err}
		}()
	}
	seen := map[string]bool{"10.244.0.0/24": true} // the control plane's own
	for range count {
		got := <-results
		if got.err != nil {
			t.Error(got.err)
		} else if seen[got.pods] {
			t.Errorf("%s was given twice", got.pods)
		}
		seen[got.pods] = true
	}
	if pods, err := register(t.Context(), client, joining(), joiner{name: "worker-0", ips: []netip.Addr{netip.MustParseAddr("192.0.2.9")}}); err != nil || !seen[pods] {
		t.Errorf("again: %s, %v", pods, err)
	}
}

func TestRangeOf(t *testing.T) {
	t.Parallel()
	node := func(name, pods string) corev1.Node {
		all := strings.Split(pods, ",")
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: all[0]}}
		if len(all) > 1 {
			n.Spec.PodCIDRs = all
		}
		return n
	}
	const both = "10.244.0.0/16,fd00:10:244::/56"
	for _, tc := range []struct {
		name    string
		cluster string
		nodes   []corev1.Node
		joined  map[string]string
		want    string
		known   bool
		err     string
	}{
		{"first", "10.244.0.0/16", nil, nil, "10.244.1.0/24", false, ""},
		{"has one", "10.244.0.0/16", []corev1.Node{node("n", "10.244.7.0/24")}, nil, "10.244.7.0/24", true, ""},
		{"without one", "10.244.0.0/16", []corev1.Node{node("n", "")}, nil, "", false, "without a pod range"},
		{"after others", "10.244.0.0/16", []corev1.Node{node("a", "10.244.1.0/24")}, map[string]string{"b": "x 10.244.2.0/24"}, "10.244.3.0/24", false, ""},
		{"noted before", "10.244.0.0/16", nil, map[string]string{"n": "x 10.244.1.0/24"}, "10.244.1.0/24", false, ""},
		{"all noted, one removed", "10.244.0.0/23", nil, map[string]string{"b": "x 10.244.1.0/24"}, "10.244.1.0/24", false, ""},
		{"of both families", both, nil, nil, "10.244.1.0/24,fd00:10:244:1::/64", false, ""},
		{"has both", both, []corev1.Node{node("n", "10.244.7.0/24,fd00:10:244:8::/64")}, nil, "10.244.7.0/24,fd00:10:244:8::/64", true, ""},
		{
			"after others of both", both, []corev1.Node{node("a", "10.244.1.0/24,fd00:10:244:2::/64")}, map[string]string{"b": "x,y 10.244.2.0/24,fd00:10:244:1::/64 key"},
			"10.244.3.0/24,fd00:10:244:3::/64", false, "",
		},
		{"one family in use", "10.244.0.0/16,fd00:10:244::/63", []corev1.Node{node("a", "10.244.1.0/24,fd00:10:244:1::/64")}, nil, "", false, "no pod range is left in fd00:10:244::/63"},
		{"all in use", "10.244.0.0/23", []corev1.Node{node("a", "10.244.1.0/24")}, nil, "", false, "no pod range is left"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			own, all, err := nodePods(Config{Networking: NetworkingConfig{PodSubnet: tc.cluster}})
			if err != nil {
				t.Fatal(err)
			}
			got, known, err := podSpace{all: all, own: own}.rangeOf("n", tc.nodes, tc.joined)
			if got != tc.want || known != tc.known || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %q, %t, %v", got, known, err)
			}
		})
	}
}

// An answer that is lost leaves a node that can be registered again.
func TestRegister_LostAnswer(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	ip := netip.MustParseAddr("192.0.2.7")
	first, err := register(t.Context(), client, joining(), joiner{name: "n", ips: []netip.Addr{ip}})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if again, err := register(t.Context(), client, joining(), joiner{name: "n", ips: []netip.Addr{ip}}); err != nil || again != first {
		t.Errorf("again: %q, %v; want %q", again, err, first)
	}
}
