// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package portallocator hands out node ports. Touch it when the choice of ports changes.
package portallocator

import (
	"context"
	"errors"
	"fmt"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"minik8s.io/minik8s/pkg/registry/core/service/ranges"
)

// ErrAllocated means that the port belongs to another service.
var ErrAllocated = errors.New("provided port is already allocated")

// Allocator hands out the ports of a range.
type Allocator struct {
	ports utilnet.PortRange
	r     ranges.Range
}

// New returns an allocator. used lists the ports of existing services; those out of range are ignored.
func New(ports utilnet.PortRange, store *ranges.Store, used func(ctx context.Context) ([]int32, error)) *Allocator {
	a := &Allocator{ports: ports}
	a.r = ranges.Range{
		Name: "servicenodeports", Spec: ports.String(), Size: uint64(ports.Size), Reserved: reserved(ports.Size), Store: store,
		Used: func(ctx context.Context) (ranges.Set, error) {
			list, err := used(ctx)
			if err != nil {
				return nil, err
			}
			var offsets []uint64
			for _, p := range list {
				if ports.Contains(int(p)) {
					offsets = append(offsets, uint64(int(p)-ports.Base))
				}
			}
			return ranges.NewSet(offsets...), nil
		},
	}
	return a
}

// Range is the store's view, for repair.
func (a *Allocator) Range() *ranges.Range { return &a.r }

// Allocate takes a certain port.
func (a *Allocator) Allocate(ctx context.Context, port int32, dryRun bool) error {
	if !a.ports.Contains(int(port)) {
		if dryRun {
			return nil // as upstream: there only ports that are taken are refused
		}
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", a.ports.String())
	}
	err := a.r.Take(ctx, uint64(int(port)-a.ports.Base), dryRun)
	if errors.Is(err, ranges.ErrTaken) {
		return ErrAllocated
	}
	return err
}

// AllocateNext takes n free ports other than those of except, which a dry run has chosen before; all of them or none.
func (a *Allocator) AllocateNext(ctx context.Context, n int, except []int32, dryRun bool) ([]int32, error) {
	var avoid []uint64
	for _, port := range except {
		if a.ports.Contains(int(port)) {
			avoid = append(avoid, uint64(int(port)-a.ports.Base))
		}
	}
	offsets, err := a.r.TakeAny(ctx, n, ranges.NewSet(avoid...), dryRun)
	ports := make([]int32, len(offsets))
	for i, o := range offsets {
		ports[i] = int32(a.ports.Base) + int32(o)
	}
	return ports, err
}

// Release gives a port back.
func (a *Allocator) Release(ctx context.Context, port int32) error {
	if !a.ports.Contains(int(port)) {
		return nil
	}
	return a.r.Free(ctx, uint64(int(port)-a.ports.Base))
}

// reserved is the part at the beginning that is given out last: a 32nd, but 16 to 128 ports (KEP-3668).
func reserved(size int) uint64 {
	const low, high, share = 16, 128, 32
	if size <= low {
		return 0
	}
	return uint64(min(max(low, size/share), high))
}
