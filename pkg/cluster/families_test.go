// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestCheckFamilies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		network NetworkingConfig
		kubelet KubeletConfig
		router  RouterConfig
		want    string // what the error says
		has     []string
	}{
		{name: "nothing said", has: []string{"IPv4"}},
		{name: "IPv6", network: NetworkingConfig{IPFamily: IPv6}, has: []string{"IPv6"}},
		{name: "both", network: NetworkingConfig{IPFamily: Dual}, has: []string{"IPv4", "IPv6"}},
		{name: "by a range", network: NetworkingConfig{PodSubnet: "fd00:1::/56"}, has: []string{"IPv6"}},
		{name: "by the second range", network: NetworkingConfig{ServiceSubnet: "fd00:1::/112,10.1.0.0/16"}, has: []string{"IPv6", "IPv4"}},
		{
			name: "IPv6 first", has: []string{"IPv6", "IPv4"},
			network: NetworkingConfig{IPFamily: Dual, PodSubnet: "fd00:1::/56, 10.1.0.0/16", ServiceSubnet: "fd00:2::/112,10.2.0.0/16"},
			kubelet: KubeletConfig{NodeIP: "fd00::2,192.0.2.2", PodCIDR: "fd00:1::/64,10.1.0.0/24"},
		},
		{name: "another", network: NetworkingConfig{IPFamily: "ipv5"}, want: `networking.ipFamily: it is "ipv5"`},
		{name: "no range", network: NetworkingConfig{NodeSubnet: "10.1.0.0"}, want: "networking.nodeSubnet"},
		{name: "two of one", network: NetworkingConfig{PodSubnet: "10.1.0.0/16,10.2.0.0/16"}, want: "more than one of a family"},
		{name: "three", network: NetworkingConfig{PodSubnet: "10.1.0.0/16,fd00::/56,10.2.0.0/16"}, want: "more than one of a family"},
		{name: "one in the other", network: NetworkingConfig{PodSubnet: "::ffff:10.1.0.0/112"}, want: "networking.podSubnet"},
		{name: "ranges differ", network: NetworkingConfig{PodSubnet: "10.1.0.0/16", ServiceSubnet: "10.2.0.0/16,fd00::/112"}, want: "networking.serviceSubnet: 10.2.0.0/16,fd00::/112 is of IPv4 and IPv6, want IPv4"},
		{name: "order differs", network: NetworkingConfig{PodSubnet: "10.1.0.0/16,fd00:1::/56", ServiceSubnet: "fd00::/112,10.2.0.0/16"}, want: "want IPv4 and IPv6"},
		{name: "pods of the node differ", network: NetworkingConfig{IPFamily: Dual}, kubelet: KubeletConfig{PodCIDR: "10.1.0.0/24"}, want: "kubelet.podCIDR"},
		{name: "pods of the node are no range", kubelet: KubeletConfig{PodCIDR: "10.1.2.3/24"}, want: "kubelet.podCIDR: 10.1.2.3/24 must not have bits set beyond the prefix length"},
		{name: "address of the node differs", kubelet: KubeletConfig{NodeIP: "fd00::1"}, want: "kubelet.nodeIP"},
		{name: "no address", kubelet: KubeletConfig{NodeIP: "here"}, want: "kubelet.nodeIP"},
		{name: "an address of one link", network: NetworkingConfig{IPFamily: IPv6}, kubelet: KubeletConfig{NodeIP: "fe80::1%eth0"}, want: "kubelet.nodeIP"},
		{name: "gateways of both", network: NetworkingConfig{IPFamily: Dual}, router: RouterConfig{GatewaySubnet: "192.0.2.0/24,2001:db8::/64"}, has: []string{"IPv4", "IPv6"}},
		{name: "gateways of one", network: NetworkingConfig{IPFamily: Dual}, router: RouterConfig{GatewaySubnet: "2001:db8::/64"}, has: []string{"IPv4", "IPv6"}},
		{name: "gateways differ", router: RouterConfig{GatewaySubnet: "192.0.2.0/24,2001:db8::/64"}, want: "router.gatewaySubnet: 192.0.2.0/24,2001:db8::/64 is of IPv6, want IPv4"},
		{name: "gateways of no range", router: RouterConfig{GatewaySubnet: "192.0.2.1"}, want: "router.gatewaySubnet"},
		{name: "gateways of two of one", router: RouterConfig{GatewaySubnet: "192.0.2.0/24,198.51.100.0/24"}, want: "more than one of a family"},
		{name: "a cluster that is", network: NetworkingConfig{IPFamily: Dual, PodSubnet: "10.1.0.0/16", ServiceSubnet: "10.2.0.0/16"}, want: "as long as it exists"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := Config{Name: "a", Networking: tc.network, Kubelet: tc.kubelet, Router: tc.router}.checkFamilies()
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tc.has, tc.network.Families()); diff != "" {
				t.Errorf("families (-want +got):\n%s", diff)
			}
		})
	}
}

// What is chosen is of the families that are wanted, is none of another cluster's, and is chosen once.
func TestSettleNetworks_Families(t *testing.T) {
	t.Parallel()
	settled := func(c Config, others ...Config) Config {
		t.Helper()
		if err := settleNetworks(&c, others); err != nil {
			t.Fatal(err)
		}
		if err := settlePool(&c, others); err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	of := func(c Config) []string {
		return []string{c.Networking.PodSubnet, c.Networking.ServiceSubnet, c.Networking.NodeSubnet, c.LoadBalancer.Pool}
	}
	other := Config{Name: "other", Networking: NetworkingConfig{
		PodSubnet: "10.244.0.0/16,fd00:10:244::/56", ServiceSubnet: "10.96.0.0/16,fd00:10:96::/112", NodeSubnet: "10.196.0.0/24,fd00:10:196::/64",
	}, LoadBalancer: LoadBalancerConfig{Pool: "10.160.0.0/24,fd00:10:160::/120"}}
	for _, tc := range []struct {
		name  string
		given NetworkingConfig
		want  []string
	}{
		{"IPv4", NetworkingConfig{}, []string{"10.243.0.0/16", "10.97.0.0/16", "10.195.0.0/24", "10.161.0.0/24"}},
		{"IPv6", NetworkingConfig{IPFamily: IPv6}, []string{"fd00:10:243::/56", "fd00:10:97::/112", "fd00:10:195::/64", "fd00:10:161::/120"}},
		{"both", NetworkingConfig{IPFamily: Dual}, []string{"10.243.0.0/16,fd00:10:243::/56", "10.97.0.0/16,fd00:10:97::/112", "10.195.0.0/24,fd00:10:195::/64", "10.161.0.0/24,fd00:10:161::/120"}},
		{"IPv6 first", NetworkingConfig{PodSubnet: "fd01::/56,10.1.0.0/16"}, []string{"fd01::/56,10.1.0.0/16", "fd00:10:97::/112,10.97.0.0/16", "fd00:10:195::/64,10.195.0.0/24", "fd00:10:161::/120,10.161.0.0/24"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := settled(Config{Name: "a", Networking: tc.given}, other)
			if diff := cmp.Diff(tc.want, of(c)); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(of(c), of(settled(c, other))); diff != "" {
				t.Errorf("settling twice differs:\n%s", diff)
			}
		})
	}
}

func TestNodePods(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, subnet, own, want string }{
		{"IPv4", "10.244.0.0/16", "", "10.244.0.0/24"},
		{"IPv6", "fd00:10:244::/56", "", "fd00:10:244::/64"},
		{"small ones", "10.244.1.0/26,fd00:1::/80", "", "10.244.1.0/26,fd00:1::/80"},
		{"of its own", "10.244.0.0/16,fd00:10:244::/56", "10.244.3.0/24,fd00:10:244:3::/64", "10.244.3.0/24,fd00:10:244:3::/64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, all, err := nodePods(Config{Networking: NetworkingConfig{PodSubnet: tc.subnet}, Kubelet: KubeletConfig{PodCIDR: tc.own}})
			if err != nil || pairText(got) != tc.want || pairText(all) != tc.subnet {
				t.Errorf("got %v of %v, %v, want %s", got, all, err, tc.want)
			}
		})
	}
	if _, _, err := nodePods(Config{}); err == nil || !strings.Contains(err.Error(), "networking.podSubnet") {
		t.Errorf("without a range: %v", err)
	}
}

func TestNodeIPs(t *testing.T) {
	t.Parallel()
	got, err := nodeIPs(Config{Kubelet: KubeletConfig{NodeIP: "192.0.2.1, fd00::1"}})
	want := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}
