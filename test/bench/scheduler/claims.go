// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"minik8s.io/minik8s/pkg/controllers"
	"minik8s.io/minik8s/test/program"
)

// makeClaims runs what makes the resource claims of pods, for both schedulers the same, until it is stopped: upstream's harness runs
// upstream's in the same way.
func makeClaims(ctx context.Context, server *program.Server) (stop func() error, err error) {
	loops, err := controllers.New(controllers.Config{
		RESTConfig: server.Config(), Enabled: []string{"resourceclaim"},
		ClientFor: func(string) (*rest.Config, error) { return server.Config(), nil },
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to make resource claims: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- loops.Start(ctx) }()
	return func() error {
		cancel()
		return <-done
	}, nil
}

// allocation is of which kinds the devices may be that claims get before anything is measured.
var allocation = structured.Features{ConsumableCapacity: true, PartitionableDevices: true, PrioritizedList: true}

// allocateClaims gives each claim of a namespace devices of any node, as if a scheduler had done so long ago.
func (r *run) allocateClaims(ctx context.Context, _ int, o operation) error {
	api := r.client.ResourceV1()
	claims, err := api.ResourceClaims(o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	nodes, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	listed, err := api.ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	classes, err := api.DeviceClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	slices := make([]*resourcev1.ResourceSlice, len(listed.Items))
	for i := range slices {
		slices[i] = &listed.Items[i]
	}
	compiled := cel.NewCache(10, cel.Features{EnableConsumableCapacity: true})
	taken := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		allocator, err := structured.NewAllocator(ctx, allocation, taken, deviceClasses(classes.Items), slices, compiled)
		if err != nil {
			return err
		}
		for _, n := range rand.Perm(len(nodes.Items)) {
			found, err := allocator.Allocate(ctx, &nodes.Items[n], []*resourcev1.ResourceClaim{claim})
			if err != nil {
				return err
			}
			if len(found) > 0 {
				claim.Status.Allocation = &found[0]
				break
			}
		}
		if claim.Status.Allocation == nil {
			return fmt.Errorf("no node has devices for claim %s", claim.Name)
		}
		take(&taken, claim.Status.Allocation)
		if _, err := api.ResourceClaims(o.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// take notes that devices are not free any more.
func take(taken *structured.AllocatedState, a *resourcev1.AllocationResult) {
	for i := range a.Devices.Results {
		d := &a.Devices.Results[i]
		id := structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
		if d.ShareID == nil {
			taken.AllocatedDevices.Insert(id)
			continue
		}
		taken.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, d.ShareID))
		if d.ConsumedCapacity != nil {
			taken.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, d.ConsumedCapacity))
		}
	}
}

// deviceClasses are all there are.
type deviceClasses []resourcev1.DeviceClass

// List implements structured.DeviceClassLister.
func (d deviceClasses) List() (out []*resourcev1.DeviceClass, _ error) {
	for i := range d {
		out = append(out, &d[i])
	}
	return out, nil
}

// Get implements structured.DeviceClassLister.
func (d deviceClasses) Get(name string) (*resourcev1.DeviceClass, error) {
	for i := range d {
		if d[i].Name == name {
			return &d[i], nil
		}
	}
	return nil, fmt.Errorf("no device class %s", name)
}
