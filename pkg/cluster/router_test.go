// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestRouterConfig(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		config RouterConfig
		node   string
		want   string // "": not valid
	}{
		{"the node's", RouterConfig{}, "192.0.2.1", "192.0.2.1"},
		{"no node", RouterConfig{}, "", "127.0.0.1"},
		{"its own", RouterConfig{Address: "192.0.2.2", HTTPPort: 8080, HTTPSPort: 8443}, "192.0.2.1", "192.0.2.2"},
		{"those of both families", RouterConfig{}, "192.0.2.1,fd00::1", "192.0.2.1,fd00::1"},
		{"its own of both", RouterConfig{Address: "fd00::2,192.0.2.2"}, "192.0.2.1,fd00::1", "fd00::2,192.0.2.2"},
		{"two of one family", RouterConfig{Address: "192.0.2.2,192.0.2.3"}, "192.0.2.1", ""},
		{"no address", RouterConfig{Address: "localhost"}, "192.0.2.1", ""},
		{"no port", RouterConfig{HTTPPort: 65536}, "192.0.2.1", ""},
		{"no range", RouterConfig{GatewaySubnet: "192.0.2.0/28,2001:db8::1/127"}, "192.0.2.1", ""},
		{"ranges of both", RouterConfig{GatewaySubnet: "192.0.2.0/28,2001:db8::/112"}, "192.0.2.1", "192.0.2.1"},
		{"one port", RouterConfig{HTTPPort: 8080, HTTPSPort: 8080}, "192.0.2.1", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if err := tc.config.validate(); (err != nil) != (tc.want == "") {
				t.Fatalf("error is %v", err)
			}
			if tc.want == "" {
				return
			}
			var node []netip.Addr
			if tc.node != "" {
				node, _ = parseAddresses(tc.node)
			}
			if got, err := tc.config.addresses(node); err != nil || pairText(got) != tc.want {
				t.Errorf("addresses are %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

// What a user made of the class stays.
func TestPublishIngressClass(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	for _, controller := range []string{"minik8s.io/router", "example.com/other"} {
		if err := publishIngressClass(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		class, err := client.NetworkingV1().IngressClasses().Get(t.Context(), "minik8s", metav1.GetOptions{})
		if err != nil || class.Spec.Controller != controller {
			t.Fatalf("class is %v, %v", class, err)
		}
		class.Spec.Controller = "example.com/other"
		if _, err := client.NetworkingV1().IngressClasses().Update(t.Context(), class, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Gateways get their addresses from the end of the ranges of pods, where a node comes last.
func TestGatewaySubnets(t *testing.T) {
	t.Parallel()
	const both = "10.244.0.0/16,fd00:10:244::/56"
	for _, tc := range []struct {
		name, pods, own, want string
	}{
		{"the last range", "10.244.0.0/16", "", "10.244.255.0/24"},
		{"of a small one", "10.1.4.0/23", "", "10.1.5.0/24"},
		{"no other range", "10.1.4.0/24", "", ""},
		{"of IPv6", "fd00:10:244::/56", "", "fd00:10:244:ff::/64"},
		{"of both", both, "", "10.244.255.0/24,fd00:10:244:ff::/64"},
		{"of both, IPv6 first", "fd00:10:244::/56,10.244.0.0/16", "", "fd00:10:244:ff::/64,10.244.255.0/24"},
		{"no other range of IPv6", "fd00:10:244::/64", "", ""},
		{"no other range of the second", "10.244.0.0/16,fd00:10:244::/64", "", "10.244.255.0/24"},
		{"no other range of the first", "10.1.4.0/24,fd00:10:244::/56", "", ""},
		{"its own", "10.244.0.0/16", "192.0.2.1/28", "192.0.2.0/28"},
		{"its own of both", both, "2001:db8::1/112,192.0.2.1/28", "192.0.2.0/28,2001:db8::/112"},
		{"its own of the first", both, "192.0.2.1/28", "192.0.2.0/28,fd00:10:244:ff::/64"},
		{"its own of the second", both, "2001:db8::/112", "10.244.255.0/24,2001:db8::/112"},
		{"its own of the second alone", "10.1.4.0/24,fd00:10:244::/56", "2001:db8::/112", "2001:db8::/112"},
		{"of another family, from before", "10.1.4.0/24", "2001:db8::/112", "2001:db8::/112"},
	} {
		got, err := gatewaySubnets(Config{Networking: NetworkingConfig{PodSubnet: tc.pods}, Router: RouterConfig{GatewaySubnet: tc.own}})
		if err != nil || pairText(got) != tc.want {
			t.Errorf("%s: %s, %v, want %s", tc.name, got, err, tc.want)
		}
	}
}
