// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registrytest

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	"minik8s.io/minik8s/pkg/apiserver/generic"
	"minik8s.io/minik8s/pkg/etcd"
	"minik8s.io/minik8s/pkg/pki"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/etcdstore"
)

// Serve runs an API server with only the given groups on a real etcd until the test ends, and returns an all-powerful
// client configuration. deps may set what the resources need besides storage.
func Serve(tb testing.TB, deps registry.Config, groups ...registry.Group) *rest.Config {
	tb.Helper()
	member, err := etcd.Start(context.Background(), etcd.Config{Dir: tb.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = member.Close() })
	return ServeFrom(tb, member, deps, groups...)
}

// ServeFrom is Serve on an etcd of the caller's.
func ServeFrom(tb testing.TB, backend etcd.Backend, deps registry.Config, groups ...registry.Group) *rest.Config {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ca, err := pki.NewCA("test")
	if err != nil {
		tb.Fatal(err)
	}
	serving, err := ca.Issue(pki.Request{CommonName: "test", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	b, err := generic.NewBuilder(generic.Config{Backend: backend, Groups: groups, Listener: listener, Serving: serving, Storage: etcdstore.Options{CompactionInterval: -1}})
	if err != nil {
		tb.Fatal(err)
	}
	if len(deps.ServiceIPRanges) == 0 {
		deps.ServiceIPRanges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	}
	if deps.NodePorts.Size == 0 {
		deps.NodePorts = utilnet.PortRange{Base: 30000, Size: 2768}
	}
	nobody := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil })
	b.Decide(generic.Policy{Authenticator: nobody, Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)})
	s, err := b.Finish(deps, genericapiserver.NewEmptyDelegate())
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan error, 1)
	prepared := s.PrepareRun()
	go func() { done <- prepared.RunWithContext(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("server ended with: %v", err)
		}
	})
	waitReady(tb, b.Loopback)
	return b.Loopback
}

func waitReady(tb testing.TB, c *rest.Config) {
	tb.Helper()
	transport, err := rest.TransportFor(c)
	if err != nil {
		tb.Fatal(err)
	}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	deadline := time.Now().Add(30 * time.Second)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for ; time.Now().Before(deadline); <-ticker.C {
		resp, err := client.Get(c.Host + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	tb.Fatal("the API server did not become ready in 30 s")
}
