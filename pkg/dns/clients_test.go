// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/machinetest"
	"minik8s.io/minik8s/pkg/network/namespace"
)

func TestListener_MayAsk(t *testing.T) {
	client := fake.NewClientset()
	s, err := New(Config{
		Client: client, Informers: informers.NewSharedInformerFactory(client, 0),
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, AllowFrom: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
	})
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "two"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Address: "192.0.2.2"}, {Address: "two"}}},
	}
	s.watcher.nodeChanged(node, false)
	l := &Listener{server: s}
	l.machine.list = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("203.0.113.1")}, nil }
	for client, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "10.244.7.7": true, "198.51.100.9": true, "192.0.2.2": true, "203.0.113.1": true,
		"192.0.2.3": false, "10.245.0.1": false, "203.0.113.2": false,
	} {
		if got := l.mayAsk(netip.MustParseAddr(client)); got != want {
			t.Errorf("%s: %v", client, got)
		}
	}
	s.watcher.nodeChanged(node, true)
	if l.mayAsk(netip.MustParseAddr("192.0.2.2")) {
		t.Error("a node that is gone may still ask")
	}
}

// An address that the machine gets later may ask, but addresses are not listed for every stranger.
func TestMachine_Has(t *testing.T) {
	listed := 0
	addrs := []netip.Addr{}
	m := machine{list: func() ([]netip.Addr, error) { listed++; return addrs, nil }}
	now, a := time.Now(), netip.MustParseAddr("192.0.2.1")
	for range 10 {
		if m.has(a, now) {
			t.Error("a stranger")
		}
	}
	addrs = append(addrs, a)
	if listed != 1 || !m.has(a, now.Add(time.Second)) || listed != 2 {
		t.Errorf("listed %d times", listed)
	}
	m.list = func() ([]netip.Addr, error) { return nil, errors.New("the list was interrupted") }
	if m.has(netip.MustParseAddr("192.0.2.2"), now.Add(2*time.Second)) || !m.has(a, now.Add(2*time.Second)) {
		t.Error("addresses are forgotten because they could not be listed")
	}
}

// A listener in another network namespace answers there, from the same state, and refuses strangers.
func TestListener_NetworkNamespace(t *testing.T) {
	machinetest.Root(t, "for a network namespace")
	const name = "minik8s-dns-test"
	const path = "/run/netns/" + name
	// A new namespace is entered, so it is made on a thread that ends.
	err := namespace.Do("/proc/self/ns/net", func() error {
		ns, err := netns.NewNamed(name)
		if err == nil {
			err = ns.Close()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.DeleteNamed(name); err != nil {
			t.Error(err)
		}
	})
	err = namespace.Do(path, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, a := range []string{"10.244.9.1/32", "192.0.2.77/32"} {
			addr, err := netlink.ParseAddr(a)
			if err != nil {
				return err
			}
			if err := netlink.AddrAdd(lo, addr); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := start(t, newClient(t), nil)
	l, err := s.Listen(ListenConfig{Addr: netip.MustParseAddrPort("10.244.9.1:53"), NetworkNamespace: path})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx) }()
	for _, network := range []string{"udp", "tcp"} {
		err := namespace.Do(path, func() error {
			m := new(dns.Msg).SetQuestion("web.ns.svc.cluster.local.", dns.TypeA)
			c := &dns.Client{Net: network, Timeout: 5 * time.Second}
			conn, err := c.Dial("10.244.9.1:53")
			if err != nil {
				return err
			}
			defer conn.Close()
			got, _, err := c.ExchangeWithConn(m, conn)
			if err == nil && len(got.Answer) != 1 {
				t.Errorf("%s: %v", network, got)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
