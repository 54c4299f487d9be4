// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/namespacetest"
)

func TestLoadBalancerConfig(t *testing.T) {
	t.Parallel()
	const subnet = "10.244.0.0/16"
	for _, tc := range []struct {
		name   string
		config LoadBalancerConfig
		want   string // the pool, or a piece of the error
	}{
		{"open", LoadBalancerConfig{}, "[]"},
		{"CIDR", LoadBalancerConfig{Pool: "192.0.2.7/24", Announce: "arp"}, "[192.0.2.0/24]"},
		{"range", LoadBalancerConfig{Pool: "192.0.2.240-192.0.2.250", Announce: "none"}, "[192.0.2.240/29 192.0.2.248/31 192.0.2.250/32]"},
		{"one address", LoadBalancerConfig{Pool: "192.0.2.1-192.0.2.1"}, "[192.0.2.1/32]"},
		{"the last addresses", LoadBalancerConfig{Pool: "255.255.255.254-255.255.255.255"}, "[255.255.255.254/31]"},
		{"several", LoadBalancerConfig{Pool: "192.0.2.0/24, 2001:db8::/120"}, "[192.0.2.0/24 2001:db8::/120]"},
		{"backwards", LoadBalancerConfig{Pool: "192.0.2.2-192.0.2.1"}, "is no range"},
		{"of two families", LoadBalancerConfig{Pool: "192.0.2.2-2001:db8::1"}, "is no range"},
		{"nonsense", LoadBalancerConfig{Pool: "lan"}, "loadBalancer.pool"},
		{"pods", LoadBalancerConfig{Pool: "10.244.7.0/24"}, "meets networking.podSubnet"},
		{"of a link", LoadBalancerConfig{Pool: "fe80::1-fe80::5"}, "to one link"},
		{"of many", LoadBalancerConfig{Pool: "ff00::/120"}, "no machine alone"},
		{"with the loopback address", LoadBalancerConfig{Pool: "::/120"}, "no machine alone"},
		{"up to that of a link", LoadBalancerConfig{Pool: "fc00::/6"}, "to one link"},
		{"IPv4 as IPv6", LoadBalancerConfig{Pool: "::ffff:192.0.2.0/120"}, "of IPv4"},
		{"announced otherwise", LoadBalancerConfig{Announce: "bgp"}, `want "none" or "arp"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pool, err := tc.config.prefixes()
			if err == nil {
				err = tc.config.validate(NetworkingConfig{PodSubnet: subnet})
			}
			if got := fmt.Sprint(pool); err == nil && got != tc.want || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestSettlePool(t *testing.T) {
	t.Parallel()
	first, none := Config{Name: "a"}, 0
	if err := settlePool(&first, nil); err != nil || first.LoadBalancer.Pool == "" {
		t.Fatalf("the first pool is %q, %v", first.LoadBalancer.Pool, err)
	}
	second := Config{Name: "b"}
	if err := settlePool(&second, []Config{first}); err != nil || second.LoadBalancer.Pool == first.LoadBalancer.Pool {
		t.Errorf("two clusters have the pools %q and %q, %v", first.LoadBalancer.Pool, second.LoadBalancer.Pool, err)
	}
	same := Config{Name: "c", LoadBalancer: first.LoadBalancer}
	if err := settlePool(&same, []Config{first}); !isProblem(err) {
		t.Errorf("the pool of another cluster is taken: %v", err)
	}
	without := Config{Name: "d", Nodes: &none}
	if err := settlePool(&without, nil); err != nil || without.LoadBalancer.Pool != "" {
		t.Errorf("without a node the pool is %q, %v", without.LoadBalancer.Pool, err)
	}
}

func TestCheckNetwork(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, pool string
		announced  bool
		want       string
	}{
		{"elsewhere", "10.160.0.0/24", false, ""},
		{"in the network, unasked", "192.0.2.240/28", false, "loadBalancer.announce: arp"},
		{"in the network", "192.0.2.240/28", true, ""},
		{"the machine's own address", "192.0.2.0/28", true, "own address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := checkNetwork(netip.MustParsePrefix(tc.pool), netip.MustParsePrefix("192.0.2.1/24"), "eth0", tc.announced)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

// Addresses of the pool that a process which was killed has left on a link are no reason to refuse the pool.
func TestCheckPool_Lent(t *testing.T) {
	t.Parallel()
	n, other := namespacetest.New(t), namespacetest.New(t)
	namespacetest.Link(t, 1500, namespacetest.End{At: n, Name: "lan", Address: "2001:db8::100/64"}, namespacetest.End{At: other, Name: "lan", Address: "2001:db8::200/64"})
	pool := []netip.Prefix{netip.MustParsePrefix("2001:db8::/125")}
	check := func(announced bool) error { return n.Do(func() error { return checkPool(pool, announced) }) }
	if err := n.Do(func() error {
		lan, err := netlink.LinkByName("lan")
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr("2001:db8::1/128")
		if err != nil {
			return err
		}
		a.Flags, a.ValidLft = unix.IFA_F_NODAD|unix.IFA_F_NOPREFIXROUTE, math.MaxUint32
		return netlink.AddrAdd(lan, a)
	}); err != nil {
		t.Fatal(err)
	}
	if err := check(true); err != nil {
		t.Errorf("announced: %v", err)
	}
	if err := check(false); err == nil || !strings.Contains(err.Error(), "loadBalancer.announce: arp") {
		t.Errorf("not announced: %v", err)
	}
	n.AddAddress(t, "lan", "2001:db8::2/64")
	if err := check(true); err == nil || !strings.Contains(err.Error(), "own address") {
		t.Errorf("with an address of the machine: %v", err)
	}
}
