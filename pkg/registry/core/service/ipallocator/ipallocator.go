// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ipallocator hands out ClusterIPs of one family. Touch it when the choice of addresses changes.
package ipallocator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/registry/core/service/ranges"
)

// ErrAllocated means that the address belongs to another service.
var ErrAllocated = errors.New("provided IP is already allocated")

// Allocator hands out the addresses of a prefix, except the first and, with IPv4, the last.
type Allocator struct {
	prefix netip.Prefix
	r      ranges.Range
}

// New returns an allocator whose state is stored under name. used lists the addresses of existing services; those out
// of the prefix are ignored.
func New(name string, prefix netip.Prefix, store *ranges.Store, used func(ctx context.Context) ([]netip.Addr, error)) *Allocator {
	prefix = prefix.Masked()
	a := &Allocator{prefix: prefix}
	size := size(prefix)
	a.r = ranges.Range{
		Name: name, Spec: prefix.String(), Size: size, Reserved: reserved(size), Store: store,
		Used: func(ctx context.Context) (ranges.Set, error) {
			list, err := used(ctx)
			if err != nil {
				return nil, err
			}
			var offsets []uint64
			for _, ip := range list {
				if o, ok := a.offset(ip); ok {
					offsets = append(offsets, o)
				}
			}
			return ranges.NewSet(offsets...), nil
		},
	}
	return a
}

// At returns the n-th address of a prefix, counted from 0: the kubernetes service has the first after the network's own
// (1), the cluster's DNS by custom the tenth (10). It fails if the prefix is too small.
func At(prefix netip.Prefix, n uint64) (netip.Addr, error) {
	if n == 0 || n > size(prefix.Masked()) {
		return netip.Addr{}, fmt.Errorf("range %s has no address number %d", prefix, n)
	}
	return at(prefix.Masked(), n-1), nil
}

// Family is the family of the addresses.
func (a *Allocator) Family() corev1.IPFamily {
	if a.prefix.Addr().Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// Range is the store's view, for repair.
func (a *Allocator) Range() *ranges.Range { return &a.r }

// Allocate takes a certain address.
func (a *Allocator) Allocate(ctx context.Context, ip netip.Addr, dryRun bool) error {
	o, ok := a.offset(ip)
	if !ok {
		return fmt.Errorf("the provided IP (%v) is not in the valid range. The range of valid IPs is %s", ip, a.prefix)
	}
	err := a.r.Take(ctx, o, dryRun)
	if errors.Is(err, ranges.ErrTaken) {
		return ErrAllocated
	}
	return err
}

// AllocateNext takes any free address.
func (a *Allocator) AllocateNext(ctx context.Context, dryRun bool) (netip.Addr, error) {
	o, err := a.r.TakeAny(ctx, dryRun)
	if err != nil {
		return netip.Addr{}, err
	}
	return at(a.prefix, o), nil
}

// Release gives an address back.
func (a *Allocator) Release(ctx context.Context, ip netip.Addr) error {
	o, ok := a.offset(ip)
	if !ok {
		return nil
	}
	return a.r.Free(ctx, o)
}

// size is the number of usable addresses; of IPv6 prefixes only the first 2^32 are used.
func size(p netip.Prefix) uint64 {
	bits := p.Addr().BitLen() - p.Bits()
	if bits > 32 {
		bits = 32
	}
	n := uint64(1) << bits
	if p.Addr().Is4() {
		return n - min(n, 2)
	}
	return n - 1
}

// reserved is the part at the beginning that is given out last: a sixteenth, but 16 to 256 addresses (KEP-3070).
func reserved(size uint64) uint64 {
	const low, high, share = 16, 256, 16
	if size < low {
		return 0
	}
	return min(max(low, size/share), high)
}

// at is the address at an offset; offset 0 is the first after the network's own.
func at(p netip.Prefix, offset uint64) netip.Addr {
	b := p.Addr().AsSlice()
	tail := b[max(0, len(b)-8):]
	buf := make([]byte, 8)
	copy(buf[8-len(tail):], tail)
	binary.BigEndian.PutUint64(buf, binary.BigEndian.Uint64(buf)+offset+1)
	copy(tail, buf[8-len(tail):])
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

func (a *Allocator) offset(ip netip.Addr) (uint64, bool) {
	ip = ip.Unmap()
	if !a.prefix.Contains(ip) {
		return 0, false
	}
	o := low64(ip) - low64(a.prefix.Addr()) - 1
	return o, o < a.r.Size
}

func low64(ip netip.Addr) uint64 {
	b := ip.As16()
	return binary.BigEndian.Uint64(b[8:])
}
