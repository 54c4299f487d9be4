// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package vxlan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"minik8s.io/minik8s/pkg/network/namespacetest"
)

var cluster = netip.MustParsePrefix("10.244.0.0/16")

func TestNames(t *testing.T) {
	a := Tunnel{Cluster: cluster, Peer: Peer{Node: netip.MustParseAddr("10.9.1.2")}}
	other := Tunnel{Cluster: netip.MustParsePrefix("10.245.0.0/16"), Peer: a.Peer}
	if len(a.Name()) > 15 || a.Name() == other.Name() || a.id() == other.id() || a.id() <= 0 || a.id() >= 1<<24 {
		t.Errorf("names %s, %s; ids %d, %d", a.Name(), other.Name(), a.id(), other.id())
	}
	b := netip.MustParseAddr("10.9.2.2")
	hardware := a.hardware(b)
	if hardware.String() != other.hardware(b).String() && hardware[0]&3 == 2 && hardware.String() != a.hardware(a.Node).String() && len(hardware) == 6 {
		return
	}
	t.Errorf("hardware addresses %s, %s, %s", hardware, a.hardware(a.Node), other.hardware(b))
}

// plan is the addresses of a family; in those with %d it is the number of the machine.
type plan struct {
	cluster                     netip.Prefix
	node, moved, router, length string
	pods, pod, podLength        string
	anywhere, forwarding        string
	family, mtu                 int
}

var (
	four = plan{
		cluster: cluster, node: "10.9.%d.2", moved: "10.9.%d.3", router: "10.9.%d.1", length: "/24", pods: "10.244.%d.0/24", pod: "10.244.%d.5", podLength: "/32",
		anywhere: "0.0.0.0/0", forwarding: "/proc/sys/net/ipv4/ip_forward", family: netlink.FAMILY_V4, mtu: 1450,
	}
	six = plan{
		cluster: netip.MustParsePrefix("fd00:244::/48"), node: "fd00:9:%d::2", moved: "fd00:9:%d::3", router: "fd00:9:%d::1", length: "/64",
		pods: "fd00:244:0:%d::/64", pod: "fd00:244:0:%d::5", podLength: "/128",
		anywhere: "::/0", forwarding: "/proc/sys/net/ipv6/conf/all/forwarding", family: netlink.FAMILY_V6, mtu: 1430,
	}
)

func (p plan) peer(i int) Peer {
	return Peer{netip.MustParseAddr(fmt.Sprintf(p.node, i)), netip.MustParsePrefix(fmt.Sprintf(p.pods, i))}
}

// leads is what machine 1 has of machine 2, at an address.
func (p plan) leads(at string) []string {
	one, two := p.peer(1), p.peer(2)
	return []string{two.gateway().String() + " perm", fmt.Sprintf("%s via %s from %s", two.Pods, two.gateway(), one.gateway()), at}
}

// machine is a node behind the router, with a pod's address on its loopback.
type machine struct {
	*namespacetest.Namespace
	tunnel Tunnel
	pod    string
}

func (m *machine) sync(peers ...Peer) error {
	return m.Do(func() error { return m.tunnel.Sync(peers) })
}

// machines are two nodes in networks of their own, and a router between them that does not know the pods.
func machines(t *testing.T, p plan) (a, b *machine) {
	t.Helper()
	router := namespacetest.New(t)
	var all []*machine
	for i := 1; i <= 2; i++ {
		m := &machine{Namespace: namespacetest.New(t), pod: fmt.Sprintf(p.pod, i)}
		m.tunnel.Cluster, m.tunnel.Peer = p.cluster, p.peer(i)
		gateway := fmt.Sprintf(p.router, i)
		namespacetest.Link(t, 1500,
			namespacetest.End{At: m.Namespace, Name: "eth0", Address: m.tunnel.Node.String() + p.length},
			namespacetest.End{At: router, Name: fmt.Sprint("eth", i), Address: gateway + p.length})
		m.AddAddress(t, "lo", m.pod+p.podLength)
		if err := m.Do(func() error {
			// As strict as a machine may be with source addresses.
			if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0); err != nil {
				return err
			}
			_, all, _ := net.ParseCIDR(p.anywhere)
			return netlink.RouteAdd(&netlink.Route{Dst: all, Gw: net.ParseIP(gateway)})
		}); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	if err := router.Do(func() error { return os.WriteFile(p.forwarding, []byte("1"), 0) }); err != nil {
		t.Fatal(err)
	}
	return all[0], all[1]
}

// reach connects to an address of a machine from one of another, sends 100 KiB, in packets as full as they get, and reads them back.
func reach(t *testing.T, from *machine, source string, to *machine, address string) error {
	t.Helper()
	var l net.Listener
	if err := to.Do(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c)
	}()
	var c net.Conn
	if err := from.Do(func() (err error) {
		d := net.Dialer{Timeout: 2 * time.Second}
		if source != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
		}
		c, err = d.Dial("tcp", l.Addr().String())
		return err
	}); err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 6400)
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(sent)
		written <- err
	}()
	got := make([]byte, len(sent))
	_, err := io.ReadFull(c, got)
	if err := errors.Join(err, <-written); err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return errors.New("something else came back")
	}
	return nil
}

func TestTraffic(t *testing.T) {
	t.Run("IPv4", func(t *testing.T) { traffic(t, four) })
	t.Run("IPv6", func(t *testing.T) { traffic(t, six) })
}

func traffic(t *testing.T, p plan) {
	t.Helper()
	a, b := machines(t, p)
	if err := reach(t, a, a.pod, b, b.pod); err == nil {
		t.Fatal("pods reach one another without the tunnel: the test proves nothing")
	}
	for range 2 { // a second time changes nothing
		if err := errors.Join(a.sync(b.tunnel.Peer), b.sync(a.tunnel.Peer)); err != nil {
			t.Fatal(err)
		}
	}
	for _, way := range []struct {
		name, source string
		from, to     *machine
	}{
		{"pod to pod", a.pod, a, b},
		{"and back", b.pod, b, a},
		{"node to pod", "", a, b},
	} {
		if err := reach(t, way.from, way.source, way.to, way.to.pod); err != nil {
			t.Errorf("%s: %v", way.name, err)
		}
	}
	if seen := state(t, a, p); !cmp.Equal(seen, p.leads(b.tunnel.Node.String())) {
		t.Errorf("a has %q", seen)
	}

	// A node that comes back with another address, and one that goes.
	moved, third := Peer{netip.MustParseAddr(fmt.Sprintf(p.moved, 2)), b.tunnel.Pods}, p.peer(3)
	if err := errors.Join(a.sync(moved, third), a.sync(moved)); err != nil {
		t.Fatal(err)
	}
	if seen := state(t, a, p); !cmp.Equal(seen, p.leads(moved.Node.String())) {
		t.Errorf("a has %q after the peer moved", seen)
	}
	if err := reach(t, a, a.pod, b, b.pod); err == nil {
		t.Error("a reaches the pod at an address that its node does not have any more")
	}
	b.AddAddress(t, "eth0", moved.Node.String()+p.length)
	b.tunnel.Node = moved.Node
	if err := b.sync(a.tunnel.Peer); err != nil {
		t.Fatal(err)
	}
	if err := reach(t, a, a.pod, b, b.pod); err != nil {
		t.Errorf("after the node moved: %v", err)
	}

	for range 2 {
		if err := a.sync(); err != nil {
			t.Fatal(err)
		}
	}
	if seen := state(t, a, p); seen != nil {
		t.Errorf("without peers a has %q", seen)
	}
}

// A node whose address comes to another link, or whose link gets another MTU, has its tunnel there; while it has none, all stays.
func TestSync_AnotherLink(t *testing.T) {
	a, b := machines(t, four)
	must := func(what string, do func() error) {
		t.Helper()
		if err := a.Do(do); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	on := func(want string, mtu int) {
		t.Helper()
		if err := a.sync(b.tunnel.Peer); err != nil {
			t.Fatal(err)
		}
		must("looking at the tunnel", func() error {
			link, err := netlink.LinkByName(a.tunnel.Name())
			if err != nil {
				return err
			}
			under, err := netlink.LinkByIndex(link.(*netlink.Vxlan).VtepDevIndex)
			if err == nil && (under.Attrs().Name != want || link.Attrs().MTU != mtu) {
				t.Errorf("the tunnel is on %s with MTU %d, want %s with %d", under.Attrs().Name, link.Attrs().MTU, want, mtu)
			}
			return err
		})
	}
	address := func(change func(netlink.Link, *netlink.Addr) error, name string) {
		t.Helper()
		must("moving the address", func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			addr, err := netlink.ParseAddr(a.tunnel.Node.String() + four.length)
			if err != nil {
				return err
			}
			return change(link, addr)
		})
	}
	on("eth0", 1450)
	must("another link", func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = "bond0", 1400
		link := &netlink.Veth{LinkAttrs: attrs, PeerName: "bond1"}
		return errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link))
	})
	address(netlink.AddrDel, "eth0")
	on("eth0", 1450)
	address(netlink.AddrAdd, "bond0")
	on("bond0", 1350)
	must("another MTU", func() error {
		link, err := netlink.LinkByName("bond0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, 1300)
	})
	on("bond0", 1250)
}

func TestSync_NoSuchAddress(t *testing.T) {
	a, b := machines(t, four)
	a.tunnel.Node = netip.MustParseAddr("10.9.1.77")
	if err := a.sync(b.tunnel.Peer); err == nil || !strings.Contains(err.Error(), "no link has the node's address 10.9.1.77") {
		t.Errorf("got %v", err)
	}
}

// state is what a machine has of the tunnel, nil if there is no link.
func state(t *testing.T, m *machine, p plan) []string {
	t.Helper()
	var seen []string
	err := m.Do(func() error {
		link, err := netlink.LinkByName(m.tunnel.Name())
		if isNoLink(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if mtu := link.Attrs().MTU; mtu != p.mtu {
			seen = append(seen, fmt.Sprint("MTU ", mtu))
		}
		neighbours, err := netlink.NeighList(link.Attrs().Index, p.family)
		if err != nil {
			return err
		}
		for _, n := range neighbours {
			if n.State == netlink.NUD_PERMANENT {
				seen = append(seen, n.IP.String()+" perm")
			}
		}
		routes, err := netlink.RouteListFiltered(p.family, &netlink.Route{LinkIndex: link.Attrs().Index, Protocol: protocol}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return err
		}
		for _, r := range routes {
			seen = append(seen, fmt.Sprintf("%s via %s from %s", r.Dst, r.Gw, r.Src))
		}
		forwards, err := netlink.NeighList(link.Attrs().Index, 7)
		if err != nil {
			return err
		}
		for _, f := range forwards {
			seen = append(seen, f.IP.String())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}
