// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// TestCheckDNSPort has another program on all addresses, or on one that is its own, while that of DNS is not there yet.
func TestCheckDNSPort(t *testing.T) {
	t.Parallel()
	address := netip.MustParseAddr("192.0.2.1")
	stream := func(on string) netip.AddrPort {
		l, err := net.Listen("tcp", on)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l.Addr().(*net.TCPAddr).AddrPort()
	}
	packets := func(on string) netip.AddrPort {
		c, err := net.ListenPacket("udp", on)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.LocalAddr().(*net.UDPAddr).AddrPort()
	}
	for _, tc := range []struct {
		name  string
		other netip.AddrPort
		taken bool
	}{
		{"TCP on all", stream("0.0.0.0:0"), true},
		{"UDP on all", packets("0.0.0.0:0"), true},
		{"TCP on one", stream("127.0.0.1:0"), false},
		{"UDP on one", packets("127.0.0.1:0"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := checkDNSPort(t.Context(), netip.AddrPortFrom(address, tc.other.Port()))
			if p := (*Problem)(nil); errors.As(err, &p) != tc.taken || (err != nil) != tc.taken {
				t.Errorf("the error is %v, want a Problem: %t", err, tc.taken)
			}
		})
	}
}
