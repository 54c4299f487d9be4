// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/namespacetest"
)

// onMachine lists what a namespace has of a machine's pool: addresses on the loopback link, and unreachable routes.
func onMachine(t *testing.T, n *namespacetest.Namespace) (addresses, routes []string) {
	t.Helper()
	err := n.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		list, err := netlink.AddrList(lo, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, a := range list {
			if !a.IP.IsLoopback() {
				addresses = append(addresses, a.IPNet.String())
			}
		}
		all, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Type: unix.RTN_UNREACHABLE}, netlink.RT_FILTER_TYPE)
		for _, r := range all {
			routes = append(routes, r.Dst.String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return addresses, routes
}

func TestHold(t *testing.T) {
	t.Parallel()
	n := namespacetest.New(t)
	m := machine{cluster: "a", pool: prefixes("192.0.2.0/29", "2001:db8::/125"), netNS: n.Path()}
	other := machine{cluster: "b", pool: prefixes("198.51.100.0/29"), netNS: n.Path()}
	n.AddAddress(t, "lo", "192.0.2.6/32") // of a user
	if _, _, err := other.hold(addrs("198.51.100.1")); err != nil {
		t.Fatal(err)
	}
	theirs := []string{"198.51.100.1/32"}
	for _, tc := range []struct {
		name                           string
		want                           []netip.Addr
		kept, added, addresses, routes []string
	}{
		{"nothing", nil, nil, nil, nil, nil},
		{"both families", addrs("192.0.2.1", "2001:db8::1"), nil, []string{"192.0.2.1", "2001:db8::1"},
			[]string{"192.0.2.1/32", "2001:db8::1/128"}, []string{"192.0.2.0/29", "2001:db8::/125"}},
		{"again", addrs("192.0.2.1", "2001:db8::1"), []string{"192.0.2.1", "2001:db8::1"}, nil,
			[]string{"192.0.2.1/32", "2001:db8::1/128"}, []string{"192.0.2.0/29", "2001:db8::/125"}},
		{"another one", addrs("192.0.2.2"), nil, []string{"192.0.2.2"}, []string{"192.0.2.2/32"}, []string{"192.0.2.0/29", "2001:db8::/125"}},
		{"one more", addrs("192.0.2.2", "192.0.2.3"), []string{"192.0.2.2"}, []string{"192.0.2.3"},
			[]string{"192.0.2.2/32", "192.0.2.3/32"}, []string{"192.0.2.0/29", "2001:db8::/125"}},
		{"what a user has there is left alone", addrs("192.0.2.6"), nil, nil, nil, []string{"192.0.2.0/29", "2001:db8::/125"}},
		{"none left", nil, nil, nil, nil, nil},
	} {
		kept, added, err := m.hold(tc.want)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if want := addrs(tc.kept...); !slices.Equal(kept, want) {
			t.Errorf("%s: kept %v, want %v", tc.name, kept, want)
		}
		if want := addrs(tc.added...); !slices.Equal(added, want) {
			t.Errorf("%s: added %v, want %v", tc.name, added, want)
		}
		addresses, routes := onMachine(t, n)
		want := append(append([]string{"192.0.2.6/32"}, theirs...), tc.addresses...)
		if !sameSet(want, addresses) {
			t.Errorf("%s: addresses are %v, want %v", tc.name, addresses, want)
		}
		if want := append([]string{"198.51.100.0/29"}, tc.routes...); !sameSet(want, routes) {
			t.Errorf("%s: unreachable routes are %v, want %v", tc.name, routes, want)
		}
	}
}

func sameSet(a, b []string) bool {
	count := map[string]int{}
	for _, s := range a {
		count[s]++
	}
	for _, s := range b {
		count[s]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// TestReached connects a machine and a neighbour: who asks for an address by ARP finds it, a port that nobody has is refused, and
// the rest of the pool is unreachable.
func TestReached(t *testing.T) {
	t.Parallel()
	node, neighbour := namespacetest.New(t), namespacetest.New(t)
	namespacetest.Link(t, 1500, namespacetest.End{At: node, Name: "lan", Address: "192.0.2.100/24"}, namespacetest.End{At: neighbour, Name: "lan", Address: "192.0.2.200/24"})
	pool := prefixes("192.0.2.0/29")
	m := machine{cluster: "a", pool: pool, netNS: node.Path()}
	if _, _, err := m.hold(addrs("192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, to string
		from     *namespacetest.Namespace
		want     error
	}{
		{"from the machine", "192.0.2.1:80", node, unix.ECONNREFUSED},
		{"from a neighbour", "192.0.2.1:80", neighbour, unix.ECONNREFUSED},
		{"an address that nobody has", "192.0.2.2:80", node, unix.EHOSTUNREACH},
	} {
		err := tc.from.Do(func() error {
			c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp", tc.to)
			if err == nil {
				_ = c.Close()
			}
			return err
		})
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if err := Purge("a", pool, node.Path()); err != nil {
		t.Fatal(err)
	}
	if addresses, routes := onMachine(t, node); len(addresses) != 0 || len(routes) != 0 {
		t.Errorf("a purge leaves %v and %v", addresses, routes)
	}
}
