// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ipallocator

import (
	"math"
	"net/netip"
	"testing"
)

func mustRange(t *testing.T, prefix string) Range {
	t.Helper()
	r, err := NewRange(netip.MustParsePrefix(prefix))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRange(t *testing.T) {
	tests := []struct {
		name, prefix, first, last string
		size, reserved            uint64
	}{
		{name: "IPv4", prefix: "10.96.0.0/16", first: "10.96.0.1", last: "10.96.255.254", size: 1<<16 - 2, reserved: 256},
		{name: "host bits", prefix: "10.96.7.7/16", first: "10.96.0.1", last: "10.96.255.254", size: 1<<16 - 2, reserved: 256},
		{name: "tiny", prefix: "10.0.0.8/30", first: "10.0.0.9", last: "10.0.0.10", size: 2},
		{name: "largest without reserve", prefix: "10.0.0.0/28", first: "10.0.0.1", last: "10.0.0.14", size: 14},
		{name: "smallest with reserve", prefix: "10.0.0.0/27", first: "10.0.0.1", last: "10.0.0.30", size: 30, reserved: 16},
		{name: "a sixteenth", prefix: "10.0.0.0/22", first: "10.0.0.1", last: "10.0.3.254", size: 1022, reserved: 64},
		{name: "wide", prefix: "10.96.0.0/12", first: "10.96.0.1", last: "10.111.255.254", size: 1<<20 - 2, reserved: 256},
		{name: "IPv6", prefix: "fd00:1::/112", first: "fd00:1::1", last: "fd00:1::ffff", size: 1<<16 - 1, reserved: 256},
		{name: "IPv6 wide", prefix: "fd00:1::/64", first: "fd00:1::1", last: "fd00:1::ffff:ffff:ffff:ffff", size: math.MaxUint64, reserved: 256},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := mustRange(t, tc.prefix)
			if r.size != tc.size || r.reserved != tc.reserved {
				t.Errorf("size %d, reserved %d, want %d, %d", r.size, r.reserved, tc.size, tc.reserved)
			}
			for offset, text := range map[uint64]string{0: tc.first, tc.size - 1: tc.last} {
				if ip := r.at(offset); ip.String() != text || !r.Contains(ip) {
					t.Errorf("address at %d is %s (contained: %v), want %s", offset, ip, r.Contains(ip), text)
				}
			}
			if r.Contains(r.prefix.Addr()) {
				t.Error("the network's own address can be allocated")
			}
			if r.Contains(netip.MustParseAddr(tc.last).Next()) {
				t.Error("the address after the last can be allocated")
			}
		})
	}
	for _, empty := range []string{"10.0.0.1/32", "10.0.0.0/31", "fd00::1/128"} {
		r := mustRange(t, empty)
		if ip := r.prefix.Addr(); r.size != 0 || r.Contains(ip) || r.Contains(ip.Next()) {
			t.Errorf("%s has %d addresses", empty, r.size)
		}
	}
	if _, err := NewRange(netip.MustParsePrefix("fd00::/63")); err == nil {
		t.Error("no error for a prefix of 63 bits")
	}
}

func TestCandidates(t *testing.T) {
	r := mustRange(t, "10.0.0.0/27")
	seen := map[netip.Addr]bool{}
	for ip := range r.candidates(func(n uint64) uint64 { return n - 1 }) {
		if seen[ip] || !r.Contains(ip) {
			t.Fatalf("candidate %d is %s", len(seen), ip)
		}
		seen[ip] = true
		if late := uint64(len(seen)) > r.size-r.reserved; late != ip.Less(r.at(r.reserved)) {
			t.Errorf("candidate %d is %s: the reserved part comes last", len(seen), ip)
		}
	}
	if uint64(len(seen)) != r.size {
		t.Errorf("%d candidates, want %d", len(seen), r.size)
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
