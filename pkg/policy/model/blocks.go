// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	utilnet "k8s.io/utils/net"
)

// block returns the addresses of a block without its exceptions, in order.
func block(b *networkingv1.IPBlock) []Range {
	whole, ok := rangeOf(b.CIDR)
	if !ok {
		return nil // validation rules it out
	}
	var except []Range
	for _, e := range b.Except {
		if r, ok := rangeOf(e); ok && r.First.Is4() == whole.First.Is4() {
			except = append(except, r)
		}
	}
	var out []Range
	next := whole.First
	for _, e := range union(except) {
		if e.Last.Less(next) {
			continue
		}
		if whole.Last.Less(e.First) {
			break
		}
		if next.Less(e.First) {
			out = append(out, Range{next, e.First.Prev()})
		}
		if next = e.Last.Next(); !next.IsValid() || whole.Last.Less(next) {
			return out
		}
	}
	return append(out, Range{next, whole.Last})
}

// RangeOf returns the addresses of a prefix.
func RangeOf(p netip.Prefix) Range {
	p = p.Masked()
	last := p.Addr().AsSlice()
	for i := p.Bits(); i < p.Addr().BitLen(); i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	end, _ := netip.AddrFromSlice(last)
	return Range{p.Addr(), end}
}

// rangeOf takes what validation does, which is leading zeros too.
func rangeOf(cidr string) (Range, bool) {
	_, n, err := utilnet.ParseCIDRSloppy(cidr)
	if err != nil {
		return Range{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return RangeOf(netip.PrefixFrom(addr, bits)), ok
}

// union puts ranges in order and joins those that overlap or adjoin. It changes its argument.
func union(list []Range) []Range {
	slices.SortFunc(list, func(a, b Range) int { return a.First.Compare(b.First) })
	var out []Range
	for _, r := range list {
		if n := len(out); n > 0 && out[n-1].First.Is4() == r.First.Is4() {
			last := &out[n-1].Last
			if next := last.Next(); !next.IsValid() || !next.Less(r.First) {
				if last.Less(r.Last) {
					*last = r.Last
				}
				continue
			}
		}
		out = append(out, r)
	}
	return out
}
