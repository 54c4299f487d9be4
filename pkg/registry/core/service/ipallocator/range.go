// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ipallocator

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Range is the usable addresses of a prefix: not the first, and with IPv4 not the last.
type Range struct {
	prefix netip.Prefix
	// size counts the addresses, reserved those at the beginning that are given out last.
	size, reserved uint64
}

// NewRange returns the range of a prefix. It fails with an IPv6 prefix that is shorter than 64 bits.
func NewRange(prefix netip.Prefix) (Range, error) {
	prefix = prefix.Masked()
	bits := prefix.Addr().BitLen() - prefix.Bits()
	if bits > 64 {
		return Range{}, fmt.Errorf("shortest allowed prefix length for service CIDR is 64, got %d", prefix.Bits())
	}
	last := uint64(math.MaxUint64)
	if bits < 64 {
		last = uint64(1)<<bits - 1
	}
	r := Range{prefix: prefix, size: last}
	if prefix.Addr().Is4() {
		r.size -= min(last, 1)
	}
	r.reserved = min(reserved(last), r.size)
	return r, nil
}

// reserved is the part that is meant for those who ask for a certain address: a sixteenth of all, but 16 to 256, none of
// at most 16 (KEP-3070). last is the greatest offset from the network's own address.
func reserved(last uint64) uint64 {
	const low, high, share = 16, 256, 16
	if last < low {
		return 0
	}
	return min(max(low, (last-share+1)/share+1), high)
}

// Family is the family of the addresses.
func (r Range) Family() corev1.IPFamily { return family(r.prefix.Addr()) }

func family(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// Contains tells whether the address can be given out.
func (r Range) Contains(ip netip.Addr) bool {
	return r.prefix.Contains(ip) && low64(ip)-low64(r.prefix.Addr())-1 < r.size
}

// candidates are all addresses in the order in which they are to be tried: from a random one on, and the reserved ones only
// then. random(n) chooses below n.
func (r Range) candidates(random func(n uint64) uint64) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for _, band := range [][2]uint64{{r.reserved, r.size}, {0, r.reserved}} {
			n := band[1] - band[0]
			if n == 0 {
				continue
			}
			start := random(n)
			for i := range n {
				if !yield(r.at(band[0] + (start+i)%n)) {
					return
				}
			}
		}
	}
}

// at is the address at an offset; offset 0 is the first after the network's own.
func (r Range) at(offset uint64) netip.Addr {
	b := r.prefix.Addr().AsSlice()
	tail := b[max(0, len(b)-8):]
	buf := make([]byte, 8)
	copy(buf[8-len(tail):], tail)
	binary.BigEndian.PutUint64(buf, binary.BigEndian.Uint64(buf)+offset+1)
	copy(tail, buf[8-len(tail):])
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

func low64(ip netip.Addr) uint64 {
	b := ip.As16()
	return binary.BigEndian.Uint64(b[8:])
}

// At returns the n-th address of a prefix, counted from 0: the kubernetes service has the first after the network's own
// (1), the cluster's DNS by custom the tenth (10). It fails if the prefix is too small.
func At(prefix netip.Prefix, n uint64) (netip.Addr, error) {
	r, err := NewRange(prefix)
	if err != nil {
		return netip.Addr{}, err
	}
	if n == 0 || n > r.size {
		return netip.Addr{}, fmt.Errorf("range %s has no address number %d", prefix, n)
	}
	return r.at(n - 1), nil
}
