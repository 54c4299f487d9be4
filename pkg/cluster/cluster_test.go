// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/pkg/pki"
)

func TestReadConfig(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text, wantErr string
	}{
		{"whole", "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nname: a\nnodes: 0\nnetworking: {podSubnet: 10.1.0.0/16}\n", ""},
		{"unknown field", "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nnode: 1\n", `unknown field "node"`},
		{"another kind", "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\n", "want apiVersion: minik8s.io/v1alpha1"},
		{"no YAML", "{", "reading configuration"},
		{"policy", "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nscheduler: {policy: leastCPU}\n", ""},
		{"unknown policy", "apiVersion: minik8s.io/v1alpha1\nkind: Cluster\nscheduler: {policy: MostCpu}\n", `there is no scheduler policy "MostCpu": use one of Default, RoundRobin`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := ReadConfig(path)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	many, minus := 101, -1
	for _, tc := range []struct {
		name   string
		config Config
		want   string
	}{
		{"plain", Config{Name: "a"}, ""},
		{"bad name", Config{Name: "A_b"}, "lower-case"},
		{"too many nodes", Config{Name: "a", Nodes: &many}, "at most 100"},
		{"negative", Config{Name: "a", Nodes: &minus}, "negative"},
		{"CNI on several nodes", Config{Name: "a", Nodes: new(2), Networking: NetworkingConfig{CNIConfDir: "/etc/cni/net.d"}}, "networking.cniConfDir"},
		{"CNI somewhere", Config{Name: "a", Networking: NetworkingConfig{CNIConfDir: "net.d"}}, "networking.cniConfDir"},
		{"bad subnet", Config{Name: "a", Networking: NetworkingConfig{PodSubnet: "10.0.0.0"}}, "networking.podSubnet"},
		{"bad port", Config{Name: "a", APIPort: 70000}, "not a port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.config.Validate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestEtcdTLS_Renewed: connections that are made after the files have been replaced prove themselves by what is in them then.
func TestEtcdTLS_Renewed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := EtcdConfig{CertFile: filepath.Join(dir, "etcd.crt"), KeyFile: filepath.Join(dir, "etcd.key")}
	if _, err := etcdTLS(c); err == nil {
		t.Error("files that are not there are no error")
	}
	ca, err := pki.NewCA("etcd")
	if err != nil {
		t.Fatal(err)
	}
	write := func(user string) {
		pair, err := ca.Issue(pki.Request{CommonName: user})
		if err != nil {
			t.Fatal(err)
		}
		if err := writePair(dir, "etcd", pair); err != nil {
			t.Fatal(err)
		}
	}
	write("before")
	config, err := etcdTLS(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"before", "after"} {
		write(user)
		cert, err := config.GetClientCertificate(nil)
		if err != nil || cert.Leaf.Subject.CommonName != user {
			t.Errorf("a connection is made as %v, %v, want %s", cert, err, user)
		}
	}
}

func TestFreeSubnet(t *testing.T) {
	t.Parallel()
	taken := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("10.243.128.0/17")}
	got, err := freeSubnet(four, 244, -1, taken)
	if err != nil || got.String() != "10.242.0.0/16" {
		t.Errorf("free subnet %v, %v, want 10.242.0.0/16", got, err)
	}
	if _, err := freeSubnet(four, 244, -1, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}); err == nil {
		t.Error("a subnet was found where all is taken")
	}
	got, err = freeSubnet(six, 244, -1, []netip.Prefix{netip.MustParsePrefix("fd00:10:244::/56"), netip.MustParsePrefix("10.243.0.0/16")})
	if err != nil || got.String() != "fd00:10:243::/48" {
		t.Errorf("free subnet %v, %v, want fd00:10:243::/48", got, err)
	}
	if _, err := freeSubnet(six, 244, -1, []netip.Prefix{netip.MustParsePrefix("fd00::/8")}); err == nil {
		t.Error("a subnet of IPv6 was found where all is taken")
	}
}

func TestCheckFormat(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "data")
	check := func(want bool) {
		t.Helper()
		if marked, err := checkFormat(dir); err != nil || marked != want {
			t.Fatalf("got %t, %v, want %t", marked, err, want)
		}
	}
	check(false)
	if got, want := topmostMissing(dir), filepath.Dir(dir); got != want {
		t.Errorf("making %s makes %s first, want %s", dir, got, want)
	}
	if err := os.MkdirAll(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	check(false) // a new disk
	if err := mark(dir); err != nil {
		t.Fatal(err)
	}
	check(true)
	var p *Problem
	for name, text := range map[string]string{"newer": "99\n", "no number": "x"} {
		if err := os.WriteFile(filepath.Join(dir, "format"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := checkFormat(dir); !errors.As(err, &p) {
			t.Errorf("a format that is %s gives %v, want a Problem", name, err)
		}
	}
	if err := os.Rename(filepath.Join(dir, "format"), filepath.Join(dir, "precious")); err != nil {
		t.Fatal(err)
	}
	if _, err := checkFormat(dir); !errors.As(err, &p) {
		t.Errorf("somebody else's directory gives %v, want a Problem", err)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	var p *Problem
	if err := explain(&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, "/d"); !errors.As(err, &p) || !strings.Contains(p.Cause, "full") {
		t.Errorf("a full disk gives %v", err)
	}
	// Also of a control plane without pods, and at down, neither of which --nodes could help.
	if err := explain(&os.PathError{Op: "mkdir", Path: "x", Err: syscall.EACCES}, "/d"); !errors.As(err, &p) || !strings.Contains(p.Remedy, "--data-dir") || strings.Contains(p.Remedy, "--nodes") {
		t.Errorf("no permission gives %v", err)
	}
	plain := errors.New("x")
	if err := explain(plain, "/d"); err != plain { //nolint:errorlint // nothing may be added
		t.Errorf("another error became %v", err)
	}
}

func TestUnescape(t *testing.T) {
	t.Parallel()
	if got := unescape(`/a\040b\134c`); got != `/a b\c` {
		t.Errorf("got %q", got)
	}
}

func TestSettle_AvoidsOthersAndIsStable(t *testing.T) {
	t.Parallel()
	fill := func(c Config, others ...Config) Config {
		t.Helper()
		if err := errors.Join(settlePorts(&c, others), settleNetworks(&c, others)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	a := fill(Config{Name: "a"})
	b := fill(Config{Name: "b"}, a)
	if b.APIPort == a.APIPort || b.Kubelet.Port == a.Kubelet.Port || b.Networking.PodSubnet == a.Networking.PodSubnet || b.Networking.ServiceSubnet == a.Networking.ServiceSubnet {
		t.Errorf("clusters share: %+v and %+v", a, b)
	}
	if diff := cmp.Diff(b, fill(b, a)); diff != "" {
		t.Errorf("settling twice differs:\n%s", diff)
	}
	// What a port was asked for is not chosen for the other.
	if c := fill(Config{Name: "c", APIPort: 10250}); c.Kubelet.Port == 10250 {
		t.Error("API server and kubelet have the same port")
	}
}

func TestPodSpace_Next(t *testing.T) {
	t.Parallel()
	own := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}
	space := podSpace{all: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, own: own, gateways: []netip.Prefix{netip.MustParsePrefix("10.244.3.64/28")}}
	for _, tc := range []struct {
		name  string
		taken []string
		want  string
	}{
		{"first", nil, "10.244.0.0/24"},
		{"a gap", []string{"10.244.0.0/24", "10.244.2.0/24"}, "10.244.1.0/24"},
		{"beside gateways", []string{"10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"}, "10.244.4.0/24"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			taken := map[string]bool{}
			for _, p := range tc.taken {
				taken[p] = true
			}
			got, err := space.next(taken)
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
	small := podSpace{all: []netip.Prefix{netip.MustParsePrefix("10.244.254.0/23")}, own: []netip.Prefix{netip.MustParsePrefix("10.244.254.0/24")}}
	if got, err := small.next(map[string]bool{"10.244.254.0/24": true, "10.244.255.0/24": true}); err == nil {
		t.Errorf("got %q where all is taken", got)
	}
	small.gateways = []netip.Prefix{netip.MustParsePrefix("10.244.255.0/24")}
	if got, err := small.next(map[string]bool{"10.244.254.0/24": true}); err == nil || !strings.Contains(err.Error(), "router.gatewaySubnet") {
		t.Errorf("got %q, %v where the rest is for gateways", got, err)
	}
	both := podSpace{
		all:      []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/62")},
		own:      []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:10:244::/64")},
		gateways: []netip.Prefix{netip.MustParsePrefix("10.244.255.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")},
	}
	if got, err := both.next(map[string]bool{"10.244.0.0/24": true, "fd00:10:244::/64": true}); err != nil || got != "10.244.1.0/24,fd00:10:244:2::/64" {
		t.Errorf("got %q, %v beside gateways of both families", got, err)
	}
}

func TestAfter(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"10.0.0.0/24": "10.0.1.0/24", "10.0.255.0/24": "10.1.0.0/24", "10.0.0.128/25": "10.0.1.0/25", "10.4.0.0/14": "10.8.0.0/14"} {
		if got, ok := after(netip.MustParsePrefix(in)); !ok || got.String() != want {
			t.Errorf("after %s comes %v, want %s", in, got, want)
		}
	}
	if got, ok := after(netip.MustParsePrefix("255.255.255.0/24")); ok {
		t.Errorf("after the last comes %v", got)
	}
}

func TestReadJoin_RefusesOtherKubeconfigs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "k")
	if err := writeKubeconfig(path, kubeconfig("x", "https://x", nil, pki.Pair{})); err != nil {
		t.Fatal(err)
	}
	var p *Problem
	if _, err := ReadJoin(path); !errors.As(err, &p) {
		t.Errorf("got %v, want a Problem", err)
	}
}
