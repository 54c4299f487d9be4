// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"maps"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// devices is what the allocations of claims take, kept up to date as they come and go.
type devices struct {
	counted map[types.UID]*resourcev1.AllocationResult // by claim
	// A device counts for each claim that has it: if by mistake there are two, it is not free when one of them goes.
	whole      map[structured.DeviceID]int
	shares     map[structured.SharedDeviceID]int
	capacities structured.ConsumedCapacityCollection
	// pools are those in which something was taken or given back at some time.
	pools      map[Pool]use
	generation int64 // of the last change
	floor      int64 // of pools that are not there
	// last is the state as of the last look, nil after a change.
	last *structured.AllocatedState
}

// Pool is some devices of a driver.
type Pool struct{ Driver, Name string }

// use is what is taken of a pool.
type use struct {
	devices    int   // that are taken, each as often as claims have it
	generation int64 // of the last change
}

// sparePools is how many pools of which nothing is taken are remembered.
const sparePools = 1000

func newDevices() devices {
	return devices{
		counted:    map[types.UID]*resourcev1.AllocationResult{},
		whole:      map[structured.DeviceID]int{},
		shares:     map[structured.SharedDeviceID]int{},
		capacities: structured.NewConsumedCapacityCollection(),
		pools:      map[Pool]use{},
	}
}

// set replaces what a claim takes; nil is nothing.
func (d *devices) set(claim types.UID, allocation *resourcev1.AllocationResult) {
	old := d.counted[claim]
	if allocation == nil {
		delete(d.counted, claim)
	} else {
		d.counted[claim] = allocation
	}
	if old == allocation || equality.Semantic.DeepEqual(old, allocation) {
		return
	}
	d.generation++
	d.add(old, -1)
	d.add(allocation, 1)
	d.last = nil
	if len(d.pools) > len(d.whole)+len(d.shares)+sparePools {
		maps.DeleteFunc(d.pools, func(_ Pool, u use) bool { return u.devices == 0 })
		d.floor = d.generation
	}
}

// generationOf tells when something of a pool was taken or given back last, or at the latest.
func (d *devices) generationOf(p Pool) int64 {
	if u, ok := d.pools[p]; ok {
		return u.generation
	}
	return d.floor
}

// add counts the devices of an allocation, or takes them off for n = -1. Access for administrators takes nothing.
func (d *devices) add(allocation *resourcev1.AllocationResult, n int) {
	if allocation == nil {
		return
	}
	for i := range allocation.Devices.Results {
		r := &allocation.Devices.Results[i]
		if r.AdminAccess != nil && *r.AdminAccess {
			continue
		}
		pool := Pool{r.Driver, r.Pool}
		d.pools[pool] = use{d.pools[pool].devices + n, d.generation}
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if r.ShareID == nil {
			count(d.whole, id, n)
			continue
		}
		count(d.shares, structured.MakeSharedDeviceID(id, r.ShareID), n)
		switch consumed := structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity); {
		case r.ConsumedCapacity == nil: // even an entry of nothing would say that the device is in use
		case n > 0:
			d.capacities.Insert(consumed)
		default:
			d.capacities.Remove(consumed)
		}
	}
}

func count[T comparable](m map[T]int, key T, n int) {
	if m[key] += n; m[key] == 0 {
		delete(m, key)
	}
}

// state returns what is taken. It does not change any more.
func (d *devices) state() *structured.AllocatedState {
	if d.last == nil {
		d.last = &structured.AllocatedState{
			AllocatedDevices:         sets.KeySet(d.whole),
			AllocatedSharedDeviceIDs: sets.KeySet(d.shares),
			AggregatedCapacity:       d.capacities.Clone(),
		}
	}
	return d.last
}
