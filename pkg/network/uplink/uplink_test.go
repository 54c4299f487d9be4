// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package uplink_test

import (
	"testing"

	"minik8s.io/minik8s/pkg/network/namespacetest"
	"minik8s.io/minik8s/pkg/network/uplink"
)

func TestMTU(t *testing.T) {
	for _, tt := range []struct {
		name   string
		routes [][]string
		want   int
	}{
		{name: "none"},
		{name: "elsewhere", routes: [][]string{{"-4", "10.8.0.0/16", "dev", "up0"}, {"-6", "fd08::/64", "dev", "up0"}}},
		{name: "IPv4", routes: [][]string{{"-4", "default", "dev", "up0"}}, want: 1400},
		{name: "IPv6 alone", routes: [][]string{{"-4", "10.8.0.0/16", "dev", "up1"}, {"-6", "default", "dev", "up0"}}, want: 1400},
		{name: "refusals", routes: [][]string{{"-4", "unreachable", "default"}, {"-6", "unreachable", "default"}}},
		{name: "a refusal before it", routes: [][]string{{"-4", "unreachable", "default"}, {"-6", "default", "dev", "up1"}}, want: 1300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ns := namespacetest.New(t)
			ns.Run(t, "ip", "link", "add", "up0", "mtu", "1400", "type", "veth", "peer", "name", "up1", "mtu", "1300")
			ns.Run(t, "ip", "link", "set", "up0", "up")
			ns.Run(t, "ip", "link", "set", "up1", "up")
			for _, r := range tt.routes {
				args := []string{"ip", r[0], "route", "add"}
				ns.Run(t, append(args, r[1:]...)...)
			}
			var got int
			if err := ns.Do(func() (err error) {
				got, err = uplink.MTU()
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("MTU %d, want %d", got, tt.want)
			}
		})
	}
}
