// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// Gateways share the machine's address until two want one port of it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	in := input(t, `
kind: Gateway
metadata: {name: a, creationTimestamp: "2026-01-01T00:00:01Z"}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: b, creationTimestamp: "2026-01-01T00:00:02Z"}
spec: {listeners: [{name: http, port: 81, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: c, creationTimestamp: "2026-01-01T00:00:03Z"}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: d, creationTimestamp: "2026-01-01T00:00:04Z"}
spec: {addresses: [{value: 192.0.2.1}], listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: e, creationTimestamp: "2026-01-01T00:00:05Z"}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
status: {addresses: [{value: 192.0.2.5}]}
---
kind: Gateway
metadata: {name: f, creationTimestamp: "2026-01-01T00:00:06Z"}
spec: {listeners: [{name: dns, port: 53, protocol: TCP}]}
---
kind: Gateway
metadata: {name: g, creationTimestamp: "2026-01-01T00:00:07Z"}
spec: {listeners: [{name: dns, port: 53, protocol: UDP}]}`)
	at := func(out *Output) map[string]string {
		all := map[string]string{}
		for _, g := range out.gateways {
			all[g.object.Name] = g.address.String()
		}
		return all
	}
	if diff := cmp.Diff(map[string]string{"a": "127.0.0.1", "b": "127.0.0.1", "c": "127.0.0.1", "d": "127.0.0.1", "e": "127.0.0.1", "f": "127.0.0.1", "g": "127.0.0.1"}, at(Translate(in))); diff != "" {
		t.Errorf("without a subnet (-want +got):\n%s", diff)
	}
	in.Subnets = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/29")}
	out := Translate(in)
	want := map[string]string{"a": "127.0.0.1", "b": "127.0.0.1", "c": "192.0.2.2", "d": "192.0.2.1", "e": "192.0.2.5", "f": "127.0.0.1", "g": "192.0.2.3"}
	if diff := cmp.Diff(want, at(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	taken := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("192.0.2.5")}
	if diff := cmp.Diff(taken, out.Addresses(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	// Who is older does not matter to one that has an address of the subnet already, whoever else goes.
	in.Gateways = in.Gateways[4:5]
	if got := at(Translate(in)); got["e"] != "192.0.2.5" {
		t.Errorf("alone it moved to %s", got["e"])
	}
}

// A Gateway at the router's address has those of both families, and may ask for either. One to itself it has of the subnets that there are.
func TestAddresses_Twin(t *testing.T) {
	t.Parallel()
	in := input(t, `
kind: Gateway
metadata: {name: a, creationTimestamp: "2026-01-01T00:00:01Z"}
spec: {addresses: [{value: "fd00::1"}, {value: 127.0.0.1}], listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: b, creationTimestamp: "2026-01-01T00:00:02Z"}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}`)
	in.Twin, in.Subnets = netip.MustParseAddr("fd00::1"), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/29")}
	if diff := cmp.Diff(map[string][]string{"a": {"127.0.0.1", "fd00::1"}, "b": {"192.0.2.1"}}, addressesOf(Translate(in), nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	away := map[netip.AddrPort]error{netip.AddrPortFrom(in.Twin, in.Port(80)): errors.New("in use")}
	if diff := cmp.Diff(map[string][]string{"a": {"127.0.0.1"}, "b": {"192.0.2.1"}}, addressesOf(Translate(in), away)); diff != "" {
		t.Errorf("with a port that cannot be opened (-want +got):\n%s", diff)
	}
}

// addressesOf are the addresses that Gateways are to have in their statuses, of those whose status changes.
func addressesOf(out *Output, failed map[netip.AddrPort]error) map[string][]string {
	all := map[string][]string{}
	for _, o := range out.Statuses(failed) {
		if g, ok := o.(*gatewayv1.Gateway); ok {
			for _, a := range g.Status.Addresses {
				all[g.Name] = append(all[g.Name], a.Value)
			}
		}
	}
	return all
}

// bothFamilies are Gateways that clash, with what they have from before.
const bothFamilies = `
kind: Gateway
metadata: {name: a, creationTimestamp: "2026-01-01T00:00:01Z"}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: b, creationTimestamp: "2026-01-01T00:00:02Z"}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: first, creationTimestamp: "2026-01-01T00:00:03Z"}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
status: {addresses: [{value: 192.0.2.1}]}
---
kind: Gateway
metadata: {name: second, creationTimestamp: "2026-01-01T00:00:04Z"}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
status: {addresses: [{value: "fd00:1::5"}]}
---
kind: Gateway
metadata: {name: kept, creationTimestamp: "2026-01-01T00:00:05Z"}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
status: {addresses: [{value: 192.0.2.3}, {value: "fd00:1::1"}]}
---
kind: Gateway
metadata: {name: asked, creationTimestamp: "2026-01-01T00:00:06Z"}
spec: {addresses: [{value: "fd00:1::9"}], listeners: [{name: http, port: 81, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: with, creationTimestamp: "2026-01-01T00:00:07Z"}
spec: {addresses: [{value: "fd00:1::9"}, {value: 192.0.2.6}], listeners: [{name: http, port: 82, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: against, creationTimestamp: "2026-01-01T00:00:08Z"}
spec: {addresses: [{value: "fd00:1::8"}, {value: 192.0.2.6}], listeners: [{name: http, port: 83, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: mixed, creationTimestamp: "2026-01-01T00:00:09Z"}
spec: {addresses: [{value: 127.0.0.1}, {value: 192.0.2.7}], listeners: [{name: http, port: 84, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: twice, creationTimestamp: "2026-01-01T00:00:10Z"}
spec: {addresses: [{value: "fd00:1::8"}, {value: "fd00:1::9"}], listeners: [{name: http, port: 84, protocol: HTTP}]}
---
kind: Gateway
metadata: {name: elsewhere, creationTimestamp: "2026-01-01T00:00:11Z"}
spec: {addresses: [{value: "fd00:2::1"}], listeners: [{name: http, port: 84, protocol: HTTP}]}`

// Of both families a Gateway has an address of each to itself. What it has it keeps, and is served at both.
func TestAddresses_BothFamilies(t *testing.T) {
	t.Parallel()
	in := input(t, bothFamilies)
	in.Twin, in.Subnets = netip.MustParseAddr("fd00::1"), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/29"), netip.MustParsePrefix("fd00:1::/64")}
	out := Translate(in)
	want := map[string][]string{
		"a": {"127.0.0.1", "fd00::1"}, "b": {"192.0.2.2", "fd00:1::2"}, "first": {"192.0.2.1", "fd00:1::3"}, "second": {"192.0.2.4", "fd00:1::5"},
		"kept": {"192.0.2.3", "fd00:1::1"}, "asked": {"192.0.2.6", "fd00:1::9"}, "with": {"192.0.2.6", "fd00:1::9"},
	}
	if diff := cmp.Diff(want, addressesOf(out, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	problems := map[string]string{}
	for _, g := range out.gateways {
		if c := meta.FindStatusCondition(g.conditions.all, string(gatewayv1.GatewayConditionProgrammed)); c != nil {
			problems[g.object.Name] = c.Message
		}
	}
	refused := map[string]string{
		"against": "192.0.2.6 and fd00:1::8 are not those of one Gateway", "mixed": "a Gateway has the router's address or one to itself",
		"twice": "a Gateway has one address of a family", "elsewhere": "fd00:2::1 is neither the router's address 127.0.0.1,fd00::1 nor in its subnet 192.0.2.0/29,fd00:1::/64",
	}
	if diff := cmp.Diff(refused, problems); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	served := table.Build(table.Contents{}.With(out.Contents))
	for name, at := range want {
		port := max(map[string]uint16{"asked": 81, "with": 82}[name], 80)
		for _, ip := range at {
			if p := netip.AddrPortFrom(netip.MustParseAddr(ip), port); served.Ports[p] == nil {
				t.Errorf("%s is not served at %s", name, p)
			}
		}
	}
	// Each pass begins with what the one before has written, and comes to the same; what goes gives up both.
	var again []*gatewayv1.Gateway
	for _, g := range in.Gateways {
		g = g.DeepCopy()
		g.Status.Addresses = nil
		for _, a := range want[g.Name] {
			g.Status.Addresses = append(g.Status.Addresses, gatewayv1.GatewayStatusAddress{Value: a})
		}
		if g.Name != "b" && g.Name != "kept" {
			again = append(again, g)
		}
	}
	in.Gateways = again
	out = Translate(in)
	delete(want, "b")
	delete(want, "kept")
	if diff := cmp.Diff(want, addressesOf(out, nil)); diff != "" {
		t.Errorf("after two have gone (-want +got):\n%s", diff)
	}
	if has := out.Addresses(); slices.Contains(has, netip.MustParseAddr("192.0.2.2")) || slices.Contains(has, netip.MustParseAddr("fd00:1::1")) || !slices.Contains(has, netip.MustParseAddr("fd00:1::9")) {
		t.Errorf("the machine is to have %v", has)
	}
}

// Who finds no address of one family any more has that of the other, and without one of the first family shares the router's.
func TestAddresses_Exhausted(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range 5 {
		all = append(all, fmt.Sprintf(`
kind: Gateway
metadata: {name: g%d, creationTimestamp: "2026-01-01T00:00:0%dZ"}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}`, i, i))
	}
	in := input(t, strings.Join(all, "\n---\n"))
	in.Subnets = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/29"), netip.MustParsePrefix("fd00:1::/126")}
	want := map[string][]string{"g0": {"127.0.0.1"}, "g1": {"192.0.2.1", "fd00:1::1"}, "g2": {"192.0.2.2", "fd00:1::2"}, "g3": {"192.0.2.3"}, "g4": {"192.0.2.4"}}
	if diff := cmp.Diff(want, addressesOf(Translate(in), nil)); diff != "" {
		t.Errorf("of the second (-want +got):\n%s", diff)
	}
	slices.Reverse(in.Subnets)
	want = map[string][]string{"g0": {"127.0.0.1"}, "g1": {"fd00:1::1", "192.0.2.1"}, "g2": {"fd00:1::2", "192.0.2.2"}, "g3": {"127.0.0.1"}, "g4": {"127.0.0.1"}}
	if diff := cmp.Diff(want, addressesOf(Translate(in), nil)); diff != "" {
		t.Errorf("of the first (-want +got):\n%s", diff)
	}
}
