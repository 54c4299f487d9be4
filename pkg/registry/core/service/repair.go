// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/registry"
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
	a, err := newAllocators(r.config, ranges.FromStore(store), lister(services))
	if err != nil {
		return err
	}
	type watched struct {
		*ranges.Range
		leaks ranges.Leaks
	}
	all := []watched{{a.ports.Range(), ranges.Leaks{}}}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if ip, ok := a.ips[family]; ok {
			all = append(all, watched{ip.Range(), ranges.Leaks{}})
		}
	}
	log := klog.FromContext(ctx)
	ticker := r.clock.NewTicker(repairInterval)
	defer ticker.Stop()
	for {
		for _, w := range all {
			took, freed, err := w.Repair(ctx, w.leaks)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				log.Error(fmt.Errorf("repairing %s: %w", w.Name, err), "Repairing service allocations failed, trying again later")
			case len(took)+len(freed) > 0:
				log.Info("Repaired service allocations", "range", w.Name, "offsetsTaken", took, "offsetsFreed", freed)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}
