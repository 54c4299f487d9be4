// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
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
