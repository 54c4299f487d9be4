// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/pki"
)

// cluster is a running API server and the means to be anybody on it.
type cluster struct {
	ca   *pki.CA
	host string
}

// start runs a whole API server on a real etcd until the test ends.
func start(t testing.TB, change ...func(*Config)) *cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	member, err := etcd.Start(ctx, etcd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { member.Close() })
	must := func(p pki.Pair, err error) pki.Pair {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Backend: member, Listener: listener, AdvertiseAddress: netip.MustParseAddr("192.0.2.1"), ClientCA: ca.Cert, TokenKey: key,
		Serving:            must(ca.Issue(pki.Request{CommonName: "kube-apiserver", Hosts: []string{"127.0.0.1"}})),
		CompactionInterval: -1,
	}
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	begin := time.Now()
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("server ended with: %v", err)
		}
	})
	k := &cluster{ca: ca, host: "https://" + listener.Addr().String()}
	k.waitReady(t)
	t.Logf("ready after %v", time.Since(begin).Round(time.Millisecond))
	return k
}

func (c *cluster) waitReady(t testing.TB) {
	t.Helper()
	transport, err := rest.TransportFor(c.config(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	deadline := time.Now().Add(30 * time.Second)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for ; time.Now().Before(deadline); <-ticker.C {
		resp, err := client.Get(c.host + "/readyz")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatal("the API server did not become ready in 30 s")
}

// config identifies as a user by certificate; "" is nobody.
func (c *cluster) config(t testing.TB, user string, groups ...string) *rest.Config {
	t.Helper()
	config := &rest.Config{Host: c.host, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.Cert}}
	if user != "" {
		pair, err := c.ca.Issue(pki.Request{CommonName: user, Organizations: groups})
		if err != nil {
			t.Fatal(err)
		}
		config.CertData, config.KeyData = pair.Cert, pair.Key
	}
	return config
}

func (c *cluster) as(t testing.TB, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	return c.client(t, c.config(t, user, groups...))
}

func (c *cluster) admin(t testing.TB) kubernetes.Interface {
	t.Helper()
	return c.as(t, "admin", "system:masters")
}

func (c *cluster) client(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
