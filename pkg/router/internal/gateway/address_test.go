// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
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
	in.Subnet = netip.MustParsePrefix("192.0.2.0/29")
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

// A Gateway at the router's address has those of both families, and may ask for either. One with an address to itself has that.
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
	in.Twin, in.Subnet = netip.MustParseAddr("fd00::1"), netip.MustParsePrefix("192.0.2.0/29")
	told := func(failed map[netip.AddrPort]error) map[string][]string {
		all := map[string][]string{}
		for _, o := range Translate(in).Statuses(failed) {
			if g, ok := o.(*gatewayv1.Gateway); ok {
				for _, a := range g.Status.Addresses {
					all[g.Name] = append(all[g.Name], a.Value)
				}
			}
		}
		return all
	}
	if diff := cmp.Diff(map[string][]string{"a": {"127.0.0.1", "fd00::1"}, "b": {"192.0.2.1"}}, told(nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	away := map[netip.AddrPort]error{netip.AddrPortFrom(in.Twin, in.Port(80)): errors.New("in use")}
	if diff := cmp.Diff(map[string][]string{"a": {"127.0.0.1"}, "b": {"192.0.2.1"}}, told(away)); diff != "" {
		t.Errorf("with a port that cannot be opened (-want +got):\n%s", diff)
	}
}
