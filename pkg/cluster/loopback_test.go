// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/namespacetest"
)

// What is sent to pods, whose links have no address of IPv4, comes from an address of the machine, which stays when a cluster goes.
func TestAddLoopback_IsNoSource(t *testing.T) {
	t.Parallel()
	const pod = "10.244.0.5"
	n, other := namespacetest.New(t), namespacetest.New(t)
	namespacetest.Link(t, 1500, namespacetest.End{At: n, Name: "lan", Address: "192.0.2.9/24"}, namespacetest.End{At: other, Name: "lan", Address: "192.0.2.1/24"})
	namespacetest.Link(t, 1500, namespacetest.End{At: n, Name: "pod", Address: "2001:db8::1/64"}, namespacetest.End{At: other, Name: "eth0", Address: "2001:db8::2/64"})
	n.AddAddress(t, "lo", "10.244.0.1/32") // as an earlier version has left it
	n.Run(t, "ip", "route", "add", pod, "dev", "pod", "scope", "link")
	source := func() (from net.IP) {
		if err := n.Do(func() error {
			routes, err := netlink.RouteGet(net.ParseIP(pod))
			if err == nil {
				from = routes[0].Src
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return from
	}
	if got := source().String(); got != "10.244.0.1" {
		t.Fatalf("before, packets come from %s: this test shows nothing", got)
	}
	for range 2 {
		if err := n.Do(func() error { return addLoopback(netip.MustParseAddr("10.244.0.1")) }); err != nil {
			t.Fatal(err)
		}
		if got := source().String(); got != "192.0.2.9" {
			t.Errorf("packets come from %s", got)
		}
	}
	if err := n.Do(func() error {
		routes, err := netlink.RouteGet(net.ParseIP("10.244.0.1"))
		if err == nil && routes[0].Type != unix.RTN_LOCAL {
			t.Errorf("the address itself is reached by %v", routes[0])
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
