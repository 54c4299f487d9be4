// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/proxy/backend"
	"minik8s.io/minik8s/pkg/proxy/conntrack"
	"minik8s.io/minik8s/pkg/proxy/loopback"
	"minik8s.io/minik8s/pkg/proxy/metrics"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// family is the state of one IP family; only the loop touches it.
type family struct {
	name    model.Family
	config  backend.Config
	backend backend.Backend
	clock   clock.PassiveClock
	metrics *metrics.Metrics
	// others are what other modes may have left; nil once that is gone.
	others   []backend.Backend
	services map[model.Name]*model.Service
	// noLocal counts the ports of services that lack a local endpoint.
	noLocal struct{ internal, external int }
	// pending is what the backend has not been told yet, gone the Services that it takes the place of.
	pending backend.Changes
	gone    []*model.Service
	// flows are the Services whose UDP flows have to be looked at.
	flows conntrack.View
}

func newFamily(config Config, name model.Family, m *metrics.Metrics) *family {
	bc := config.backend(name)
	f := &family{
		name: name, config: bc, backend: config.Backend(bc), clock: config.Clock, metrics: m,
		services: map[model.Name]*model.Service{}, pending: backend.Changes{},
	}
	for mode, other := range modes {
		if mode != config.Mode {
			f.others = append(f.others, other(bc))
		}
	}
	return f
}

// update notes what a Service is now, and tells whether this process answers some port of it itself, or did.
func (f *family) update(name model.Name, s *model.Service) (visible bool) {
	old := f.services[name]
	if reflect.DeepEqual(old, s) {
		return false
	}
	f.pending[name] = s
	f.count(old, -1)
	f.count(s, 1)
	if old != nil {
		f.gone = append(f.gone, old)
		visible = answered(old)
	}
	if s == nil {
		delete(f.services, name)
		return visible
	}
	f.services[name] = s
	return visible || answered(s)
}

// count adds the ports of a Service that lack a local endpoint, so many times.
func (f *family) count(s *model.Service, times int) {
	internal, external := s.NoLocal()
	f.noLocal.internal += times * internal
	f.noLocal.external += times * external
}

func answered(s *model.Service) bool {
	for i := range s.Ports {
		if s.Ports[i].NodePort != 0 {
			return true
		}
	}
	return s.HealthCheck != nil
}

// sync writes what is pending. Flows are forgotten after the rules are in place: their next packet then finds the new endpoints.
func (f *family) sync(ctx context.Context) error {
	for _, s := range f.gone {
		f.flows.Add(s, true)
	}
	for _, s := range f.pending {
		if s != nil {
			f.flows.Add(s, false)
		}
	}
	changes := f.pending
	f.pending, f.gone = backend.Changes{}, nil // the backend remembers them, also if it fails
	if err := f.backend.Apply(ctx, changes); err != nil {
		return err
	}
	f.forget(ctx)
	for len(f.others) > 0 {
		if err := f.others[0].Purge(ctx); err != nil {
			return fmt.Errorf("removing the rules of another mode: %w", err)
		}
		f.others = f.others[1:]
	}
	return nil
}

// forget deletes stale flows. If that fails it is tried again later: it concerns those who are sending at this moment, and does not
// make the rules wrong.
func (f *family) forget(ctx context.Context) {
	if f.flows.Empty() {
		return
	}
	began := f.clock.Now()
	n, err := conntrack.Clean(f.config.NetNS, f.name, &f.flows)
	f.metrics.Forgot(string(f.name), n, f.clock.Since(began))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Forgetting stale UDP flows failed", "family", f.name)
		return
	}
	f.flows = conntrack.View{}
	if n > 0 {
		klog.FromContext(ctx).V(2).Info("Forgot stale UDP flows", "family", f.name, "flows", n)
	}
}

// localPorts are the node ports to answer on the loopback address: those that some endpoint could take.
func (f *family) localPorts() []loopback.Port {
	address := netip.IPv6Loopback()
	if f.name == model.IPv4 {
		address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if len(f.config.NodeIPs) == 0 || !f.config.AnswersNodePorts(address) {
		return nil
	}
	var out []loopback.Port
	for _, svc := range f.services {
		for i := range svc.Ports {
			if s := &svc.Ports[i]; s.NodePort != 0 && len(s.Cluster) > 0 {
				out = append(out, loopback.Port{
					Protocol: s.Name.Protocol, Listen: netip.AddrPortFrom(address, s.NodePort), Forward: netip.AddrPortFrom(f.config.NodeIPs[0], s.NodePort),
				})
			}
		}
	}
	return out
}
