// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/service/ipallocator"
	"minik8s.io/minik8s/pkg/registry/core/service/ranges"
)

// repairInterval is upstream's.
const repairInterval = 3 * time.Minute

// Repair makes the allocated ClusterIPs and node ports agree with the services that exist: a server that dies between
// taking an address and storing the service leaks it.
type Repair struct {
	config registry.Config
	clock  clock.WithTicker
}

// NewRepair returns the loop for a server; the storage of its resources must be built with the same Config.
func NewRepair(c registry.Config) *Repair { return &Repair{config: c, clock: clock.RealClock{}} }

// Start repairs at once and then every three minutes until ctx ends. It fails only if services are not served.
func (r *Repair) Start(ctx context.Context) error {
	services, err := r.config.Stores.Get(Resource.GroupResource())
	if err != nil {
		return err
	}
	store, err := r.config.Stores.Get(schema.GroupResource{Resource: "ranges"})
	if err != nil {
		return err
	}
	list := lister(services)
	a, err := newAllocators(r.config, ranges.FromStore(store), list)
	if err != nil {
		return err
	}
	log, leaks := klog.FromContext(ctx), ranges.Leaks{}
	ticker := r.clock.NewTicker(repairInterval)
	defer ticker.Stop()
	for {
		took, freed, err := a.ports.Range().Repair(ctx, leaks)
		if len(took)+len(freed) > 0 {
			log.Info("Repaired node ports", "offsetsTaken", took, "offsetsFreed", freed)
		}
		err = errors.Join(err, r.repairAddresses(ctx, a.ips, list))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			log.Error(err, "Repairing service allocations failed, trying again later")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// repairAddresses makes IPAddresses agree with services. Every step is safe against what happens meanwhile: one that exists
// is not made again, and only the very object that was seen is deleted.
func (r *Repair) repairAddresses(ctx context.Context, ips *ipallocator.Allocator, list func(context.Context) ([]corev1.Service, error)) error {
	all, err := ips.Ranges(ctx)
	if err != nil {
		return err
	}
	// Addresses come before their services, so they are read first: none that a service of the list has just got is missing
	// from the first list for longer than this pass.
	addresses, err := ips.Addresses(ctx)
	if err != nil {
		return err
	}
	services, err := list(ctx)
	if err != nil {
		return err
	}
	p := planAddresses(services, addresses, all, r.clock.Now())
	log := klog.FromContext(ctx)
	for _, problem := range p.problems {
		log.Info("A ClusterIP is wrong; please recreate the service", "problem", problem)
	}
	var errs []error
	for i := range p.remove {
		log.Info("Removing an IPAddress that is not its service's", "address", p.remove[i].Name, "parent", p.remove[i].Spec.ParentRef)
		if err := ips.Remove(ctx, &p.remove[i]); err != nil {
			errs = append(errs, fmt.Errorf("removing IPAddress %s: %w", p.remove[i].Name, err))
		}
	}
	for _, ip := range p.create {
		log.Info("Making the IPAddress of a ClusterIP", "address", ip.Name, "parent", ip.Spec.ParentRef)
		if err := ips.Create(ctx, ip); err != nil && !errors.Is(err, ipallocator.ErrAllocated) {
			errs = append(errs, fmt.Errorf("making IPAddress %s: %w", ip.Name, err))
		}
	}
	return errors.Join(errs...)
}
