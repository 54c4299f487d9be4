// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ipallocator

import (
	"net/netip"
	"testing"
)

func TestOffsets(t *testing.T) {
	tests := []struct {
		name, prefix, first, last string
		size                      uint64
	}{
		{name: "IPv4", prefix: "10.96.0.0/16", first: "10.96.0.1", last: "10.96.255.254", size: 1<<16 - 2},
		{name: "tiny", prefix: "10.0.0.8/30", first: "10.0.0.9", last: "10.0.0.10", size: 2},
		{name: "wide", prefix: "10.96.0.0/12", first: "10.96.0.1", last: "10.111.255.254", size: 1<<20 - 2},
		{name: "IPv6", prefix: "fd00:1::/112", first: "fd00:1::1", last: "fd00:1::ffff", size: 1<<16 - 1},
		{name: "IPv6 wide", prefix: "fd00:1::/64", first: "fd00:1::1", last: "fd00:1::ffff:ffff", size: 1<<32 - 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			a := New("x", netip.MustParsePrefix(tc.prefix), nil, nil)
			if a.r.Size != tc.size {
				t.Errorf("size %d, want %d", a.r.Size, tc.size)
			}
			for offset, text := range map[uint64]string{0: tc.first, tc.size - 1: tc.last} {
				ip := at(a.prefix, offset)
				if ip.String() != text {
					t.Errorf("address at %d is %s, want %s", offset, ip, text)
				}
				if got, ok := a.offset(ip); !ok || got != offset {
					t.Errorf("offset of %s is %d, %v, want %d", ip, got, ok, offset)
				}
			}
			if _, ok := a.offset(a.prefix.Addr()); ok {
				t.Error("the network's own address can be allocated")
			}
			if _, ok := a.offset(netip.MustParseAddr(tc.last).Next()); ok {
				t.Error("the address after the last can be allocated")
			}
		})
	}
}

func TestAt(t *testing.T) {
	p := netip.MustParsePrefix("10.96.0.0/16")
	for n, want := range map[uint64]string{1: "10.96.0.1", 10: "10.96.0.10", 256: "10.96.1.0"} {
		if got, err := At(p, n); err != nil || got.String() != want {
			t.Errorf("address %d is %v, %v, want %s", n, got, err, want)
		}
	}
	for _, n := range []uint64{0, 1 << 16} {
		if got, err := At(p, n); err == nil {
			t.Errorf("address %d is %v, want an error", n, got)
		}
	}
}

func TestReserved(t *testing.T) {
	for size, want := range map[uint64]uint64{2: 0, 14: 0, 254: 16, 1022: 63, 65534: 256} {
		if got := reserved(size); got != want {
			t.Errorf("of %d addresses %d are reserved, want %d", size, got, want)
		}
	}
}
