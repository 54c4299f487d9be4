// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"errors"
	"fmt"
	"maps"
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

	"minik8s.io/minik8s/pkg/network/namespacetest"
)

// TestTell goes through the looks at a machine, one after the other: each sends what is new, and knows what was sent.
func TestTell(t *testing.T) {
	t.Parallel()
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	lan, card, wlan := place{index: 2, name: "lan", mac: [6]byte{1}}, place{index: 2, name: "lan", mac: [6]byte{2}}, place{index: 3, name: "wlan", mac: [6]byte{3}}
	var known announced
	for _, step := range []struct {
		name       string
		due        []announcement
		fail       []announcement
		sent, fine []announcement
	}{
		{"nothing", nil, nil, nil, nil},
		{"one of two fails", []announcement{{a, lan}, {b, lan}}, []announcement{{a, lan}}, []announcement{{a, lan}, {b, lan}}, []announcement{{b, lan}}},
		{"it fails again", []announcement{{a, lan}, {b, lan}}, []announcement{{a, lan}}, []announcement{{a, lan}}, []announcement{{b, lan}}},
		{"it does not", []announcement{{a, lan}, {b, lan}}, nil, []announcement{{a, lan}}, []announcement{{a, lan}, {b, lan}}},
		{"nothing new", []announcement{{a, lan}, {b, lan}}, nil, nil, []announcement{{a, lan}, {b, lan}}},
		{"one goes", []announcement{{b, lan}}, nil, nil, []announcement{{b, lan}}},
		{"it comes back", []announcement{{a, lan}, {b, lan}}, nil, []announcement{{a, lan}}, []announcement{{a, lan}, {b, lan}}},
		{"another link", []announcement{{a, lan}, {a, wlan}}, nil, []announcement{{a, wlan}}, []announcement{{a, lan}, {a, wlan}}},
		{"another card", []announcement{{a, card}, {a, wlan}}, nil, []announcement{{a, card}}, []announcement{{a, card}, {a, wlan}}},
		{"all go", nil, nil, nil, nil},
	} {
		var sent []announcement
		err := known.tell(step.due, func(one announcement) error {
			sent = append(sent, one)
			if slices.Contains(step.fail, one) {
				return unix.ENOBUFS
			}
			return nil
		})
		if errors.Is(err, unix.ENOBUFS) != (step.fail != nil) {
			t.Errorf("%s: error is %v", step.name, err)
		}
		if !slices.Equal(sent, step.sent) {
			t.Errorf("%s: sent %v, want %v", step.name, sent, step.sent)
		}
		want := announced{}
		for _, one := range step.fine {
			want[one] = true
		}
		if !maps.Equal(known, want) {
			t.Errorf("%s: knows %v, want %v", step.name, known, want)
		}
	}
}

func TestAnnouncements(t *testing.T) {
	t.Parallel()
	const works = unix.IFF_UP | unix.IFF_RUNNING
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	at := place{index: 2, name: "lan", mac: [6]byte(mac)}
	for _, tc := range []struct {
		name  string
		flags uint32
		mac   net.HardwareAddr
		own   []string // the link's networks
		want  []string
	}{
		{"a link in their network", works, mac, []string{"192.0.2.100/24"}, []string{"192.0.2.1", "192.0.2.2"}},
		{"with several addresses there", works, mac, []string{"192.0.2.100/24", "192.0.2.101/24"}, []string{"192.0.2.1", "192.0.2.2"}},
		{"in a network of one of them", works, mac, []string{"192.0.2.3/31", "192.0.2.0/31"}, []string{"192.0.2.1", "192.0.2.2"}},
		{"in the network of one", works, mac, []string{"192.0.2.0/31"}, []string{"192.0.2.1"}},
		{"in another network", works, mac, []string{"198.51.100.1/24"}, nil},
		{"in none", works, mac, nil, nil},
		{"down", unix.IFF_RUNNING, mac, []string{"192.0.2.100/24"}, nil},
		{"without a cable", unix.IFF_UP, mac, []string{"192.0.2.100/24"}, []string{"192.0.2.1", "192.0.2.2"}},
		{"in a network of IPv6", works, mac, []string{"2001:db8::/64"}, []string{"2001:db8::1"}},
		{"in one of each family", works, mac, []string{"2001:db8::/64", "192.0.2.0/31"}, []string{"192.0.2.1", "2001:db8::1"}},
		{"loopback", works | unix.IFF_LOOPBACK, mac, []string{"192.0.2.100/24"}, nil},
		{"no Ethernet", works, nil, []string{"192.0.2.100/24"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: at.index, Name: at.name, RawFlags: tc.flags, HardwareAddr: tc.mac}}
			// The address of another link is no reason to tell this one's network.
			networks := []network{{3, netip.MustParsePrefix("192.0.2.0/24")}, {3, netip.MustParsePrefix("2001:db8::/64")}}
			for _, text := range tc.own {
				networks = append(networks, network{at.index, netip.MustParsePrefix(text)})
			}
			var want []announcement
			for _, ip := range addrs(tc.want...) {
				want = append(want, announcement{ip, at})
			}
			if got := announcements(addrs("192.0.2.1", "192.0.2.2", "2001:db8::1"), []netlink.Link{link}, networks); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// TestSync_Announces has a machine announce, and looks at what leaves it.
func TestSync_Announces(t *testing.T) {
	t.Parallel()
	node, neighbour := namespacetest.New(t), namespacetest.New(t)
	namespacetest.Link(t, 1500, namespacetest.End{At: node, Name: "lan", Address: "192.0.2.100/24"}, namespacetest.End{At: neighbour, Name: "lan", Address: "192.0.2.200/24"})
	node.AddAddress(t, "lo", "192.0.2.6/32") // of a user
	pool := prefixes("192.0.2.0/29", "198.51.100.0/29")
	services := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Services()
	h, err := New(Config{Cluster: "a", Pool: pool, Services: services, NetNS: node.Path(), Announce: true})
	if err != nil {
		t.Fatal(err)
	}
	set := services.Informer().GetIndexer()
	of := func(ip string) *corev1.Service {
		return service(ip, corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: ip})
	}
	// change does something about the link of a namespace.
	change := func(n *namespacetest.Namespace, f func(netlink.Link) error) func() error {
		return func() error {
			return n.Do(func() error {
				lan, err := netlink.LinkByName("lan")
				if err != nil {
					return err
				}
				return f(lan)
			})
		}
	}
	card := func(last byte) func() error {
		return change(node, func(lan netlink.Link) error {
			return netlink.LinkSetHardwareAddr(lan, net.HardwareAddr{2, 0, 0, 0, 0, last})
		})
	}
	if err := card(1)(); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, node, true)
	tap := newTap(t, node)
	for _, step := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"one comes", func() error { return set.Add(of("192.0.2.1")) }, []string{"192.0.2.1 at 02:00:00:00:00:01"}},
		{"nothing happens", nil, nil},
		{"another one comes", func() error { return set.Add(of("192.0.2.2")) }, []string{"192.0.2.2 at 02:00:00:00:00:01"}},
		{"one that nobody looks for here", func() error { return set.Add(of("198.51.100.1")) }, nil},
		{"one that a user has there", func() error { return set.Add(of("192.0.2.6")) }, nil},
		{"somebody takes one away", func() error { _, _, err := h.machine.hold(addrs("192.0.2.2")); return err }, []string{"192.0.2.1 at 02:00:00:00:00:01"}},
		{"one goes", func() error { return set.Delete(of("192.0.2.2")) }, nil},
		{"it comes back", func() error { return set.Add(of("192.0.2.2")) }, []string{"192.0.2.2 at 02:00:00:00:00:01"}},
		{"the cable is pulled out", func() error {
			err := change(neighbour, netlink.LinkSetDown)()
			awaitRunning(t, node, false)
			return err
		}, nil},
		{"one comes meanwhile", func() error { return set.Add(of("192.0.2.3")) }, nil},
		{"the cable is in again", func() error {
			err := change(neighbour, netlink.LinkSetUp)()
			awaitRunning(t, node, true)
			return err
		}, []string{"192.0.2.1 at 02:00:00:00:00:01", "192.0.2.2 at 02:00:00:00:00:01", "192.0.2.3 at 02:00:00:00:00:01"}},
		{"another card", card(2), []string{"192.0.2.1 at 02:00:00:00:00:02", "192.0.2.2 at 02:00:00:00:00:02", "192.0.2.3 at 02:00:00:00:00:02"}},
		{"again nothing happens", nil, nil},
	} {
		if step.do != nil {
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if err := h.sync(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, tap.announced(t)); diff != "" {
			t.Errorf("%s: announced (-want +got):\n%s", step.name, diff)
		}
	}
}

// awaitRunning waits until the kernel has found out that the link has a cable, or none.
func awaitRunning(t *testing.T, n *namespacetest.Namespace, want bool) {
	t.Helper()
	is := !want
	for deadline := time.Now().Add(20 * time.Second); is != want && time.Now().Before(deadline); {
		if err := n.Do(func() error {
			lan, err := netlink.LinkByName("lan")
			if err == nil {
				is = lan.Attrs().RawFlags&unix.IFF_RUNNING != 0
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if is != want {
		t.Fatalf("the link runs: %t", is)
	}
}

// tap gets what leaves by a link, before who sends it goes on.
type tap int

func newTap(t *testing.T, n *namespacetest.Namespace) tap {
	t.Helper()
	var socket int
	err := n.Do(func() (err error) {
		lan, err := netlink.LinkByName("lan")
		if err != nil {
			return err
		}
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		t.Cleanup(func() { _ = unix.Close(socket) })
		return unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: lan.Attrs().Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	return tap(socket)
}

// announced are the addresses that were announced since the last look, and where they are said to be.
func (s tap) announced(t *testing.T) (all []string) {
	t.Helper()
	for {
		frame := make([]byte, 2000)
		n, from, err := unix.Recvfrom(int(s), frame, 0)
		if errors.Is(err, unix.EAGAIN) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		const header, packet = 14, 28
		sender, is := from.(*unix.SockaddrLinklayer)
		if !is || sender.Pkttype != unix.PACKET_OUTGOING {
			continue
		}
		if ip, mac, is := advertised(frame[:n]); is {
			all = append(all, fmt.Sprint(ip, " at ", mac))
		}
		if sender.Protocol != networkOrder(unix.ETH_P_ARP) || n < header+packet {
			continue
		}
		to, arp := net.HardwareAddr(frame[:6]), frame[header:header+packet]
		mac, ip, target := net.HardwareAddr(arp[8:14]), netip.AddrFrom4([4]byte(arp[14:18])), netip.AddrFrom4([4]byte(arp[24:28]))
		if to.String() == "ff:ff:ff:ff:ff:ff" && ip == target {
			all = append(all, fmt.Sprint(ip, " at ", mac))
		}
	}
}
