// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"minik8s.io/minik8s/pkg/proxy/model"
)

// labelToBeDeleted is the taint by which the cluster autoscaler announces a node's end; load balancers then look elsewhere.
const labelToBeDeleted = "ToBeDeletedByClusterAutoscaler"

func (p *Proxy) watch() (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	add := func(informer cache.SharedIndexInformer, h cache.ResourceEventHandler) {
		if err != nil {
			return
		}
		var reg cache.ResourceEventHandlerRegistration
		if reg, err = informer.AddEventHandler(h); err == nil {
			stops = append(stops, func() { _ = informer.RemoveEventHandler(reg) })
		}
	}
	add(p.services, cache.ResourceEventHandlerFuncs{
		AddFunc: p.serviceChanged, UpdateFunc: func(_, o any) { p.serviceChanged(o) }, DeleteFunc: p.serviceChanged,
	})
	add(p.slices, cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { p.sliceChanged(nil, o) }, UpdateFunc: p.sliceChanged, DeleteFunc: func(o any) { p.sliceChanged(o, nil) },
	})
	add(p.nodes, cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { p.nodeChanged(nil, o) },
		// A node's status changes every few seconds and says nothing to a proxy.
		UpdateFunc: p.nodeChanged,
	})
	if err != nil {
		stop()
		return nil, fmt.Errorf("watching services: %w", err)
	}
	return stop, nil
}

// byService is the index of endpoint slices by namespace/name of their Service.
const byService = "minik8s.io/proxy-service"

func indexByService(o any) ([]string, error) {
	if s, ok := o.(*discoveryv1.EndpointSlice); ok {
		if name, ok := serviceOf(s); ok {
			return []string{name.String()}, nil
		}
	}
	return nil, nil
}

func serviceOf(s *discoveryv1.EndpointSlice) (model.Name, bool) {
	name := s.Labels[discoveryv1.LabelServiceName]
	return model.Name{Namespace: s.Namespace, Name: name}, name != ""
}

func (p *Proxy) serviceChanged(o any) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	if svc, ok := o.(*corev1.Service); ok {
		p.metrics.ServiceChanged()
		p.dirty.add(model.Name{Namespace: svc.Namespace, Name: svc.Name}, "", time.Time{})
		p.changed()
	}
}

func (p *Proxy) sliceChanged(before, after any) {
	if t, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = t.Obj
	}
	old, _ := before.(*discoveryv1.EndpointSlice)
	s, _ := after.(*discoveryv1.EndpointSlice)
	if old != nil {
		p.endpointsChanged(old, time.Time{})
	}
	if s == nil {
		return
	}
	var triggered time.Time
	const key = corev1.EndpointsLastChangeTriggerTime
	if text := s.Annotations[key]; text != "" && (old == nil || old.Annotations[key] != text) {
		triggered, _ = time.Parse(time.RFC3339Nano, text) // whoever writes something else is not measured
	}
	p.endpointsChanged(s, triggered)
}

// endpointsChanged notes the Service of a slice. Those that are not forwarded, such as headless ones, have no rules; one that is not
// known yet is noted when it is.
func (p *Proxy) endpointsChanged(s *discoveryv1.EndpointSlice, triggered time.Time) {
	name, ok := serviceOf(s)
	if !ok {
		return
	}
	svc, err := p.serviceL.Services(name.Namespace).Get(name.Name)
	if err != nil || !model.Forwarded(svc) {
		return
	}
	p.metrics.EndpointsChanged()
	p.dirty.add(name, model.Family(s.AddressType), triggered)
	p.changed()
}

func (p *Proxy) nodeChanged(before, after any) {
	n, ok := after.(*corev1.Node)
	if !ok || n.Name != p.config.NodeName {
		return
	}
	eligible := n.DeletionTimestamp == nil
	for _, t := range n.Spec.Taints {
		eligible = eligible && t.Key != labelToBeDeleted
	}
	p.mu.Lock()
	p.eligible = eligible
	p.mu.Unlock()
	old, _ := before.(*corev1.Node)
	if old == nil || old.Labels[corev1.LabelTopologyZone] != n.Labels[corev1.LabelTopologyZone] {
		p.dirty.all()
		p.changed()
	}
}

// node is this node as the model needs it; a node that is not registered yet has no zone.
func (p *Proxy) node() model.Node {
	n := model.Node{Name: p.config.NodeName}
	if obj, err := p.nodeL.Get(n.Name); err == nil {
		n.Zone = obj.Labels[corev1.LabelTopologyZone]
	}
	return n
}
