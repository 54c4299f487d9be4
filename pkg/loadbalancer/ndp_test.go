// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/network/namespacetest"
)

// advertised is what a frame says to all nodes by a Neighbour Advertisement: that an address is at a card.
func advertised(frame []byte) (ip netip.Addr, mac net.HardwareAddr, is bool) {
	const header, body = 14 + 40, 32
	if len(frame) != header+body || frame[20] != unix.IPPROTO_ICMPV6 || frame[header] != 136 || !bytes.Equal(frame[:6], []byte{0x33, 0x33, 0, 0, 0, 1}) {
		return netip.Addr{}, nil, false
	}
	target := netip.AddrFrom16([16]byte(frame[header+8 : header+24]))
	return target, net.HardwareAddr(frame[header+26:]), true
}

// lan are a machine and a neighbour in a network of both families.
type lan struct{ node, neighbour *namespacetest.Namespace }

func newLAN(t *testing.T) lan {
	t.Helper()
	l := lan{namespacetest.New(t), namespacetest.New(t)}
	namespacetest.Link(t, 1500, namespacetest.End{At: l.node, Name: "lan", Address: "2001:db8::100/64"}, namespacetest.End{At: l.neighbour, Name: "lan", Address: "2001:db8::200/64"})
	l.card(t, 1)
	awaitRunning(t, l.node, true)
	return l
}

// change does something about the link of a namespace.
func change(t *testing.T, n *namespacetest.Namespace, f func(netlink.Link) error) {
	t.Helper()
	if err := n.Do(func() error {
		lan, err := netlink.LinkByName("lan")
		if err != nil {
			return err
		}
		return f(lan)
	}); err != nil {
		t.Fatal(err)
	}
}

// card gives the machine another one.
func (l lan) card(t *testing.T, last byte) {
	t.Helper()
	change(t, l.node, func(lan netlink.Link) error {
		return netlink.LinkSetHardwareAddr(lan, net.HardwareAddr{2, 0, 0, 0, 0, last})
	})
}

// onLink are the addresses of the pool that the machine's link has.
func (l lan) onLink(t *testing.T) (all []string) {
	t.Helper()
	change(t, l.node, func(lan netlink.Link) error {
		list, err := netlink.AddrList(lan, netlink.FAMILY_V6)
		for _, a := range list {
			if ip, _ := netip.AddrFromSlice(a.IP); within(prefixes("2001:db8::/125"), ip) {
				all = append(all, ip.String())
			}
		}
		return err
	})
	slices.Sort(all)
	return all
}

// dial is what comes of a connection.
func dial(t *testing.T, from *namespacetest.Namespace, to string) error {
	t.Helper()
	return from.Do(func() error {
		c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(t.Context(), "tcp", to)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
}

// knows is where the neighbour believes an address to be; nowhere: "".
func (l lan) knows(t *testing.T, ip string) (mac string) {
	t.Helper()
	change(t, l.neighbour, func(lan netlink.Link) error {
		list, err := netlink.NeighList(lan.Attrs().Index, netlink.FAMILY_V6)
		for _, n := range list {
			if n.IP.String() == ip && n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 {
				mac = n.HardwareAddr.String()
			}
		}
		return err
	})
	return mac
}

func holder(t *testing.T, n *namespacetest.Namespace, announce bool) (*Holder, cache.Indexer) {
	t.Helper()
	services := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Services()
	h, err := New(Config{Cluster: "a", Pool: prefixes("2001:db8::/125"), Services: services, NetNS: n.Path(), Announce: announce})
	if err != nil {
		t.Fatal(err)
	}
	return h, services.Informer().GetIndexer()
}

func at(ip string) *corev1.Service {
	return service(ip, corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: ip})
}

// TestReached_IPv6 has a neighbour ask for an address where it is, and find it; it is told when the machine has another card, and asks nobody.
// What a killed process has left is found by a purge, and by the next process.
func TestReached_IPv6(t *testing.T) {
	t.Parallel()
	l := newLAN(t)
	const ip = "2001:db8::1"
	h, set := holder(t, l.node, true)
	if err := errors.Join(set.Add(at(ip)), h.sync()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, to string
		from     *namespacetest.Namespace
		want     error
	}{
		{"from the machine", "[2001:db8::1]:80", l.node, unix.ECONNREFUSED},
		{"from a neighbour", "[2001:db8::1]:80", l.neighbour, unix.ECONNREFUSED},
		{"an address that nobody has", "[2001:db8::2]:80", l.node, unix.EHOSTUNREACH},
	} {
		if err := dial(t, tc.from, tc.to); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if mac := l.knows(t, ip); mac != "02:00:00:00:00:01" {
		t.Errorf("the neighbour finds the address at %q", mac)
	}
	l.card(t, 2)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	mac := ""
	for deadline := time.Now().Add(10 * time.Second); mac != "02:00:00:00:00:02" && time.Now().Before(deadline); {
		mac = l.knows(t, ip)
	}
	if mac != "02:00:00:00:00:02" {
		t.Errorf("after a move the neighbour finds the address at %q", mac)
	}
	if err := dial(t, l.neighbour, "[2001:db8::1]:80"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("after a move: %v", err)
	}
	if err := Purge("a", prefixes("2001:db8::/125"), l.node.Path()); err != nil {
		t.Fatal(err)
	}
	if addresses, routes := onMachine(t, l.node); len(addresses) != 0 || len(routes) != 0 || len(l.onLink(t)) != 0 {
		t.Errorf("a purge leaves %v, %v and %v", addresses, routes, l.onLink(t))
	}
	for _, announce := range []bool{true, false} {
		before, set := holder(t, l.node, true)
		if err := errors.Join(set.Add(at(ip)), before.sync()); err != nil {
			t.Fatal(err)
		}
		if got := l.onLink(t); !slices.Equal(got, []string{ip}) {
			t.Fatalf("the link has %v", got)
		}
		next, _ := holder(t, l.node, announce)
		if err := next.sync(); err != nil {
			t.Fatal(err)
		}
		if got := l.onLink(t); len(got) != 0 {
			t.Errorf("the next process (it announces: %t) leaves %v", announce, got)
		}
	}
}

// TestSync_AnnouncesIPv6 looks at what the link has, and at what leaves it.
func TestSync_AnnouncesIPv6(t *testing.T) {
	t.Parallel()
	l := newLAN(t)
	l.node.AddAddress(t, "lan", "2001:db8::6/128") // of a user
	h, set := holder(t, l.node, true)
	address := func(text string, do func(netlink.Link, *netlink.Addr) error) func() error {
		return func() error {
			a, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			a.Flags = unix.IFA_F_NODAD
			change(t, l.node, func(lan netlink.Link) error { return do(lan, a) })
			return nil
		}
	}
	own, moved := "2001:db8::100/64", "2001:db8:1::100/64"
	tap := newTap(t, l.node)
	for _, step := range []struct {
		name string
		do   func() error
		link []string // what it has of the pool
		told []string
	}{
		{"one comes", func() error { return set.Add(at("2001:db8::1")) }, []string{"2001:db8::1", "2001:db8::6"}, []string{"2001:db8::1 at 02:00:00:00:00:01"}},
		{"nothing happens", nil, []string{"2001:db8::1", "2001:db8::6"}, nil},
		{"one that a user has there", func() error { return set.Add(at("2001:db8::6")) }, []string{"2001:db8::1", "2001:db8::6"}, nil},
		{"somebody takes one away", address("2001:db8::1/128", netlink.AddrDel), []string{"2001:db8::1", "2001:db8::6"}, []string{"2001:db8::1 at 02:00:00:00:00:01"}},
		{"the cable is pulled out", func() error {
			change(t, l.neighbour, netlink.LinkSetDown)
			awaitRunning(t, l.node, false)
			return nil
		}, []string{"2001:db8::1", "2001:db8::6"}, nil},
		{"it is in again", func() error {
			change(t, l.neighbour, netlink.LinkSetUp)
			awaitRunning(t, l.node, true)
			return nil
		}, []string{"2001:db8::1", "2001:db8::6"}, []string{"2001:db8::1 at 02:00:00:00:00:01"}},
		{"the machine goes to another network", func() error {
			return errors.Join(address(own, netlink.AddrDel)(), address(moved, netlink.AddrAdd)())
		}, []string{"2001:db8::6"}, nil},
		{"it comes back, and a route says so", func() error {
			change(t, l.node, func(lan netlink.Link) error {
				network := netip.MustParsePrefix("2001:db8::/64")
				return netlink.RouteAdd(&netlink.Route{LinkIndex: lan.Attrs().Index, Dst: &net.IPNet{IP: network.Addr().AsSlice(), Mask: net.CIDRMask(64, 128)}})
			})
			return nil
		}, []string{"2001:db8::1", "2001:db8::6"}, []string{"2001:db8::1 at 02:00:00:00:00:01"}},
		{"one goes", func() error { return set.Delete(at("2001:db8::1")) }, []string{"2001:db8::6"}, nil},
	} {
		if step.do != nil {
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if err := h.sync(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := l.onLink(t); !slices.Equal(got, step.link) {
			t.Errorf("%s: the link has %v, want %v", step.name, got, step.link)
		}
		if diff := cmp.Diff(step.told, tap.announced(t)); diff != "" {
			t.Errorf("%s: announced (-want +got):\n%s", step.name, diff)
		}
	}
}

// The kernel says of an address what it was lent with.
func TestLent(t *testing.T) {
	t.Parallel()
	const ours = unix.IFA_F_PERMANENT | unix.IFA_F_DEPRECATED | unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE
	for _, tc := range []struct {
		name, address string
		flags         int
		want          bool
	}{
		{"ours", "2001:db8::1/128", ours, true},
		{"the machine's", "2001:db8::1/64", unix.IFA_F_PERMANENT, false},
		{"of DHCP", "2001:db8::1/128", unix.IFA_F_NOPREFIXROUTE, false},
		{"of DHCP, at its end", "2001:db8::1/128", unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_DEPRECATED, false},
		{"with a network", "2001:db8::1/64", ours, false},
		{"of IPv4", "192.0.2.1/32", ours, false},
	} {
		a, err := netlink.ParseAddr(tc.address)
		if err != nil {
			t.Fatal(err)
		}
		if a.Flags = tc.flags; Lent(*a) != tc.want {
			t.Errorf("%s: %t", tc.name, !tc.want)
		}
	}
}
