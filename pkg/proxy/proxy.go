// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package proxy makes Services reachable on a node by writing rules of the packet filter; it is this project's kube-proxy. The objects
// of one Service become a neutral picture of it (model), and a backend (iptables, nftables) makes rules of that and writes what
// differs from what the kernel has. This package only runs that loop; touch it for when, not for what.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/network/upkeep"
	"minik8s.io/minik8s/pkg/proxy/health"
	"minik8s.io/minik8s/pkg/proxy/loopback"
	"minik8s.io/minik8s/pkg/proxy/metrics"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// Proxy keeps one node's service rules up to date.
type Proxy struct {
	config    Config
	services  cache.SharedIndexInformer
	slices    cache.SharedIndexInformer
	nodes     cache.SharedIndexInformer
	serviceL  corelisters.ServiceLister
	nodeL     corelisters.NodeLister
	families  []*family
	dirty     *dirty
	loop      *upkeep.Loop
	healthSrv *health.Server
	metrics   *metrics.Metrics
	local     *loopback.Server // only the loop uses it, like localOpen
	localOpen bool             // whether all ports are open that this process answers itself

	mu       sync.Mutex
	eligible bool                       // guarded by mu; the node is known, and is not being deleted
	written  map[model.Family]time.Time // guarded by mu; when the rules of a family were last written
	waiting  map[model.Family]time.Time // guarded by mu; since when something waits to be written
}

// New prepares a Proxy and registers its informers with the factory.
func New(config Config) (*Proxy, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	if config.NodeName == "" || config.Informers == nil {
		return nil, errors.New("proxy: node name and informers are required")
	}
	p := &Proxy{
		config:   config,
		services: config.Informers.Core().V1().Services().Informer(),
		slices:   config.Informers.Discovery().V1().EndpointSlices().Informer(),
		nodes:    config.Informers.Core().V1().Nodes().Informer(),
		serviceL: config.Informers.Core().V1().Services().Lister(),
		nodeL:    config.Informers.Core().V1().Nodes().Lister(),
		dirty:    newDirty(),
		written:  map[model.Family]time.Time{},
		waiting:  map[model.Family]time.Time{},
		local:    loopback.New(config.NetNS),
		metrics:  metrics.New(config.Clock, string(config.Mode)),
	}
	if _, ok := p.slices.GetIndexer().GetIndexers()[byService]; !ok { // the proxy of another node has made it
		if err := p.slices.AddIndexers(cache.Indexers{byService: indexByService}); err != nil {
			return nil, fmt.Errorf("indexing endpoint slices: %w", err)
		}
	}
	var ranges []netip.Prefix
	for _, f := range config.families() {
		p.families = append(p.families, newFamily(config, f, p.metrics))
		ranges = append(ranges, config.nodePortRanges(f)...)
	}
	p.loop = upkeep.New(upkeep.Loop{
		Write: p.sync, Verify: p.intact, VerifyPeriod: config.SyncPeriod, Failed: "Syncing service rules failed", Clock: config.Clock,
	})
	p.healthSrv = health.New(config.NetNS, ranges, func() bool { return p.Status().Healthy() }, p.healthFailed)
	return p, nil
}

// Start proxies until the context ends. The rules stay in the kernel when it returns, so that services are answered while
// the process is away; see Purge. It may be called once.
func (p *Proxy) Start(ctx context.Context) error {
	log := klog.FromContext(ctx).WithName("proxy")
	ctx = klog.NewContext(ctx, log)
	defer p.healthSrv.Close()

	stopServing, err := p.serve(ctx)
	if err != nil {
		return err
	}
	defer stopServing()
	defer p.local.Close()
	stopWatching, err := p.watch()
	if err != nil {
		if ctx.Err() != nil {
			return nil // the informers of the caller stopped first
		}
		return err
	}
	defer stopWatching()
	if !cache.WaitForCacheSync(ctx.Done(), p.services.HasSynced, p.slices.HasSynced, p.nodes.HasSynced) {
		return nil
	}
	if r := p.config.Recorder; r != nil {
		r.Eventf(&corev1.ObjectReference{Kind: "Node", Name: p.config.NodeName, APIVersion: "v1"}, nil, corev1.EventTypeNormal, "Starting", "StartKubeProxy", "")
	}
	p.dirty.all()
	p.queued()
	p.loop.Run(ctx)
	return nil
}

// Status tells when the rules were last written and whether they are current: as with upstream's proxy what has changed may wait for twice
// the time between two verifications, for a write that fails is tried again.
func (p *Proxy) Status() health.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := health.Status{Now: p.config.Clock.Now(), Eligible: p.eligible, Families: map[model.Family]health.Family{}}
	for _, f := range p.families {
		written, since := p.written[f.name], p.waiting[f.name]
		late := !since.IsZero() && s.Now.Sub(since) >= 2*p.config.SyncPeriod
		s.Families[f.name] = health.Family{LastUpdated: written, Healthy: !written.IsZero() && !late}
	}
	return s
}

// changed has what is dirty written.
func (p *Proxy) changed() {
	p.mu.Lock()
	for _, f := range p.families {
		if p.waiting[f.name].IsZero() {
			p.waiting[f.name] = p.config.Clock.Now()
		}
	}
	p.mu.Unlock()
	p.queued()
	p.loop.Poke()
}

// queued notes that something is to be written.
func (p *Proxy) queued() {
	for _, f := range p.families {
		p.metrics.Queued(string(f.name))
	}
}

// tried notes that the rules of a family were written, or not.
func (p *Proxy) tried(f model.Family, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := p.config.Clock.Now(); {
	case err == nil:
		p.written[f] = now
		delete(p.waiting, f)
	case p.waiting[f].IsZero():
		p.waiting[f] = now
	}
}

// sync brings both families and the health checks up to date with the Services that may have changed.
func (p *Proxy) sync(ctx context.Context) error {
	changes := p.dirty.take()
	names, err := p.names(changes)
	if err != nil {
		p.dirty.all()
		return err
	}
	node := p.node()
	var errs []error
	visible := !p.localOpen
	for _, f := range p.families {
		began := p.config.Clock.Now()
		for _, name := range names {
			svc, slices, err := p.objects(name)
			if err != nil {
				p.dirty.all()
				return err
			}
			visible = f.update(name, model.Build(f.name, svc, slices, node)) || visible
		}
		err := f.sync(ctx)
		p.tried(f.name, err)
		last := f.backend.Last()
		everything := changes.everything || last.Everything
		p.metrics.Synced(string(f.name), everything, p.config.Clock.Since(began))
		for table, r := range last.Rules {
			p.metrics.Rules(string(f.name), table, r.All, r.Written)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("family %s: %w", f.name, err))
			p.metrics.Failed(string(f.name), everything)
			p.dirty.retry(f.name, changes.triggered[f.name])
			continue
		}
		p.metrics.Programmed(string(f.name), changes.triggered[f.name])
		p.metrics.NoLocal(string(f.name), f.noLocal.internal, f.noLocal.external)
	}
	if visible {
		p.syncListeners(ctx)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.metrics.Settled()
	return nil
}

// names are the Services to look at: those that have changed, or all that there are and were.
func (p *Proxy) names(c changes) ([]model.Name, error) {
	if c.everything {
		all, err := p.serviceL.List(labels.Everything())
		if err != nil {
			return nil, fmt.Errorf("listing services: %w", err)
		}
		for _, svc := range all {
			c.services[model.Name{Namespace: svc.Namespace, Name: svc.Name}] = true
		}
		for _, f := range p.families {
			for name := range f.services {
				c.services[name] = true
			}
		}
	}
	return slices.Collect(maps.Keys(c.services)), nil
}

// objects are a Service, nil if there is none, and its endpoint slices.
func (p *Proxy) objects(name model.Name) (*corev1.Service, []*discoveryv1.EndpointSlice, error) {
	svc, err := p.serviceL.Services(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("looking up service %s: %w", name, err)
	}
	list, err := p.slices.GetIndexer().ByIndex(byService, name.String())
	if err != nil {
		return nil, nil, fmt.Errorf("looking up endpoint slices of %s: %w", name, err)
	}
	var out []*discoveryv1.EndpointSlice
	for _, o := range list {
		if s, ok := o.(*discoveryv1.EndpointSlice); ok {
			out = append(out, s)
		}
	}
	return svc, out, nil
}

// syncListeners brings the ports that this process answers itself up to date.
func (p *Proxy) syncListeners(ctx context.Context) {
	checks := map[model.Name]model.HealthCheck{}
	var local []loopback.Port
	for _, f := range p.families {
		for name, s := range f.services {
			if hc := s.HealthCheck; hc != nil {
				// A dual-stack service has the same pods in both families.
				if old, ok := checks[name]; !ok || old.LocalEndpoints < hc.LocalEndpoints {
					checks[name] = *hc
				}
			}
		}
		local = append(local, f.localPorts()...)
	}
	// Another program may have a port. Whether it still has it is seen at the next verification.
	p.localOpen = true
	if err := p.local.Sync(local); err != nil {
		p.localOpen = false
		klog.FromContext(ctx).Error(err, "Opening node ports on the loopback address failed")
	}
	if err := p.healthSrv.Sync(ctx, checks); err != nil {
		// Traffic does not depend on it, so this is no failure of the proxy.
		p.localOpen = false
		klog.FromContext(ctx).Error(err, "Opening health check node ports failed")
	}
}

// healthFailed tells the Service whose health check port cannot be opened.
func (p *Proxy) healthFailed(service model.Name, port uint16, err error) {
	if r := p.config.Recorder; r != nil {
		r.Eventf(&corev1.ObjectReference{Kind: "Service", Namespace: service.Namespace, Name: service.Name, APIVersion: "v1"}, nil, corev1.EventTypeWarning,
			"FailedToStartServiceHealthcheck", "Listen", "node %s failed to start healthcheck %q on port %d: %v", p.config.NodeName, service, port, err)
	}
}

// intact tells whether the rules are still in the kernel, and what this process answers itself is open. It looks at all of it, for only
// what was found amiss is written again, and a port may stay another program's for good.
func (p *Proxy) intact(ctx context.Context) bool {
	log, all := klog.FromContext(ctx), p.localOpen
	for _, f := range p.families {
		f.forget(ctx)
		intact, err := f.backend.Check(ctx)
		switch {
		case ctx.Err() != nil:
			return true
		case err != nil:
			log.Error(err, "Verifying service rules failed", "family", f.name)
		case !intact:
			log.Info("Service rules were changed by somebody, writing them again", "family", f.name)
		}
		all = all && intact && err == nil
	}
	return all
}

// Purge removes every rule and chain of the cluster from the node. Call it when no Proxy of the cluster runs there.
func (p *Proxy) Purge(ctx context.Context) error { return Purge(ctx, p.config) }

// Purge is the method of that name for a caller without a Proxy; only Cluster and NetNS of the config are used. It removes what any
// mode has left.
func Purge(ctx context.Context, config Config) error {
	if err := config.complete(); err != nil {
		return err
	}
	var errs []error
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		for _, mode := range slices.Sorted(maps.Keys(modes)) {
			err := modes[mode](config.backend(f)).Purge(ctx)
			if err != nil && f == model.IPv6 && !hasIPv6() {
				continue
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("removing %s service rules: %w", f, err))
			}
		}
	}
	return errors.Join(errs...)
}

func hasIPv6() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}
