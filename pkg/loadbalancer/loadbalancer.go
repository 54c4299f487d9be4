// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package loadbalancer holds the addresses of Services of type LoadBalancer on a machine: as long as a Service has one, the
// machine answers for it (ARP and Neighbour Discovery, ping, and a refusal where the Service has no port), and what goes to the rest
// of the pool gets nowhere, least of all out by the default route. Which Service has which address is in its status, by
// pkg/controllers/service; its ports are the proxy's business. Touch it when addresses are to be on the machine in another way.
package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Holder keeps the addresses of one machine.
type Holder struct {
	config  Config
	machine machine
	changed chan struct{}
	synced  cache.InformerSynced
	// announced is what the networks know; a new process tells them again. Only sync uses it.
	announced announced
}

// New returns a Holder and watches Services with the informer.
func New(c Config) (*Holder, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	h := &Holder{config: c, machine: machine{cluster: c.Cluster, pool: c.Pool, netNS: c.NetNS}, changed: make(chan struct{}, 1)}
	poke := func() {
		select {
		case h.changed <- struct{}{}:
		default:
		}
	}
	handler, err := c.Services.Informer().AddEventHandler(cache.FilteringResourceEventHandler{
		FilterFunc: func(obj any) bool {
			if gone, is := obj.(cache.DeletedFinalStateUnknown); is {
				obj = gone.Obj
			}
			s, is := obj.(*corev1.Service)
			return is && s.Spec.Type == corev1.ServiceTypeLoadBalancer
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { poke() }, DeleteFunc: func(any) { poke() }, UpdateFunc: func(any, any) { poke() },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching services: %w", err)
	}
	h.synced = handler.HasSynced
	return h, nil
}

// pause is between two looks, so that a burst of changes becomes one.
const pause = 50 * time.Millisecond

// Start holds the addresses until ctx ends. They stay then: pods go on serving.
func (h *Holder) Start(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), h.synced) {
		return nil
	}
	ticker := h.config.Clock.NewTicker(h.config.SyncPeriod)
	defer ticker.Stop()
	for {
		if err := h.sync(); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Holding the addresses of load balancers")
		}
		rest := h.config.Clock.NewTimer(pause)
		select {
		case <-rest.C():
		case <-ctx.Done():
			rest.Stop()
			return nil
		}
		select {
		case <-h.changed:
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// sync makes the machine have the addresses of all Services, and no others.
func (h *Holder) sync() error {
	services, err := h.config.Services.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	want := addresses(services, h.config.Pool)
	kept, added, err := h.machine.hold(want)
	if !h.config.Announce {
		return errors.Join(err, h.machine.withdraw()) // a process before may have announced
	}
	// What was away may be known elsewhere by now.
	maps.DeleteFunc(h.announced, func(a announcement, _ bool) bool { return slices.Contains(added, a.ip) })
	return errors.Join(err, h.machine.announce(slices.Concat(kept, added), &h.announced))
}

// addresses are those of the pool that Services have, sorted.
func addresses(services []*corev1.Service, pool []netip.Prefix) []netip.Addr {
	var all []netip.Addr
	for _, s := range services {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		for _, in := range s.Status.LoadBalancer.Ingress {
			if in.IPMode != nil && *in.IPMode != corev1.LoadBalancerIPModeVIP {
				continue
			}
			if ip, err := netip.ParseAddr(in.IP); err == nil && within(pool, ip.Unmap()) {
				all = append(all, ip.Unmap())
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

func within(pool []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(pool, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Purge takes all addresses of a cluster from the machine. Call it when no Holder of the cluster runs there.
func Purge(cluster string, pool []netip.Prefix, netNS string) error {
	m := machine{cluster: cluster, pool: pool, netNS: netNS}
	_, _, err := m.hold(nil)
	return errors.Join(err, m.withdraw())
}
