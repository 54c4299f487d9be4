// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package proxy makes Services reachable on a node by writing iptables rules; it is this project's kube-proxy. Objects become
// a snapshot (model), the snapshot becomes chains (rules), and the difference to what the kernel has is restored (iptables).
// This package only runs that loop; touch it for when, not for what.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/proxy/conntrack"
	"minik8s.io/minik8s/pkg/proxy/health"
	"minik8s.io/minik8s/pkg/proxy/iptables"
	"minik8s.io/minik8s/pkg/proxy/loopback"
	"minik8s.io/minik8s/pkg/proxy/model"
	"minik8s.io/minik8s/pkg/proxy/rules"
)

// labelToBeDeleted is the taint by which the cluster autoscaler announces a node's end; load balancers then look elsewhere.
const labelToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// Proxy keeps one node's service rules up to date.
type Proxy struct {
	config    Config
	services  cache.SharedIndexInformer
	slices    cache.SharedIndexInformer
	nodes     cache.SharedIndexInformer
	serviceL  corelisters.ServiceLister
	sliceL    discoverylisters.EndpointSliceLister
	nodeL     corelisters.NodeLister
	families  []*family
	trigger   chan struct{}
	healthSrv *health.Server
	local     *loopback.Server // only the loop uses it, like localOpen
	localOpen bool             // whether all of its ports are open

	mu     sync.Mutex
	status health.Status // guarded by mu; Now is filled when asked
}

// family is the state of one IP family; only the loop touches it.
type family struct {
	name  model.Family
	rules rules.Config
	table *iptables.Table
	last  *rules.Ruleset
	udp   *conntrack.View
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
		sliceL:   config.Informers.Discovery().V1().EndpointSlices().Lister(),
		nodeL:    config.Informers.Core().V1().Nodes().Lister(),
		trigger:  make(chan struct{}, 1),
		status:   health.Status{Eligible: true},
		local:    loopback.New(config.NetNS),
	}
	for _, f := range config.families() {
		rc := config.rules(f)
		p.families = append(p.families, &family{name: f, rules: rc, table: iptables.New(config.Commands(f), rc.Chains)})
	}
	p.healthSrv = health.New(config.NetNS, func() bool { return p.Status().Healthy })
	return p, nil
}

// Start proxies until the context ends. The rules stay in the kernel when it returns, so that services are answered while
// the process is away; see Purge. It may be called once.
func (p *Proxy) Start(ctx context.Context) error {
	log := klog.FromContext(ctx).WithName("proxy")
	ctx = klog.NewContext(ctx, log)
	defer p.healthSrv.Close()

	stopHealthz, err := p.serveHealthz(ctx)
	if err != nil {
		return err
	}
	defer stopHealthz()
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
	p.loop(ctx)
	return nil
}

// Status tells when the rules were last written and whether they are current.
func (p *Proxy) Status() health.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Now = p.config.Clock.Now()
	return s
}

// loop writes at once when something changed, but not more often than MinSyncPeriod, and verifies every SyncPeriod.
func (p *Proxy) loop(ctx context.Context) {
	log := klog.FromContext(ctx)
	verify := p.config.Clock.NewTicker(p.config.SyncPeriod)
	defer verify.Stop()
	retry := p.config.MinSyncPeriod
	const maxRetry = 30 * time.Second
	for {
		next := p.config.MinSyncPeriod
		if err := p.sync(ctx); err != nil && ctx.Err() == nil {
			log.Error(err, "Syncing service rules failed")
			next, retry = retry, min(2*retry, maxRetry)
			p.poke()
		} else {
			retry = p.config.MinSyncPeriod
		}
		pause := p.config.Clock.NewTimer(next)
		select {
		case <-pause.C():
		case <-ctx.Done():
			pause.Stop()
			return
		}
		for changed := false; !changed; {
			select {
			case <-p.trigger:
				changed = true
			case <-verify.C():
				changed = !p.localOpen || !p.verify(ctx)
			case <-ctx.Done():
				return
			}
		}
	}
}

// sync brings both families and the health checks up to date.
func (p *Proxy) sync(ctx context.Context) error {
	node := p.node()
	services, err := p.serviceL.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	endpointSlices, err := p.sliceL.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing endpoint slices: %w", err)
	}
	var errs []error
	checks := map[string]model.HealthCheck{}
	var local []loopback.Port
	for _, f := range p.families {
		snap := model.Build(f.name, services, endpointSlices, node)
		for _, c := range snap.HealthChecks {
			// A dual-stack service has the same pods in both families.
			key := c.Namespace + "/" + c.Service
			if old, ok := checks[key]; !ok || old.LocalEndpoints < c.LocalEndpoints {
				checks[key] = c
			}
		}
		local = append(local, localPorts(snap, f.rules.NodeIPs)...)
		if err := f.sync(ctx, snap, p.config.NetNS); err != nil {
			errs = append(errs, fmt.Errorf("family %s: %w", f.name, err))
		}
	}
	err = p.local.Sync(local)
	if p.localOpen = err == nil; err != nil {
		// Another program has the port on the loopback address. Whether it still has it is seen at the next verification.
		klog.FromContext(ctx).Error(err, "Opening node ports on the loopback address failed")
	}
	list := make([]model.HealthCheck, 0, len(checks))
	for _, c := range checks {
		list = append(list, c)
	}
	if err := p.healthSrv.Sync(ctx, list); err != nil {
		// The port is in use by somebody else. Traffic does not depend on it, so this is no failure of the proxy.
		klog.FromContext(ctx).Error(err, "Opening health check node ports failed")
	}
	err = errors.Join(errs...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Healthy = err == nil
	if err == nil {
		p.status.LastUpdated = p.config.Clock.Now()
	}
	return err
}

// localPorts are the node ports to answer on the loopback address: those that some endpoint could take.
func localPorts(snap *model.Snapshot, nodeIPs []netip.Addr) []loopback.Port {
	if len(nodeIPs) == 0 {
		return nil
	}
	address := netip.IPv6Loopback()
	if snap.Family == model.IPv4 {
		address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	var out []loopback.Port
	for i := range snap.Ports {
		if s := &snap.Ports[i]; s.NodePort != 0 && len(s.Cluster) > 0 {
			out = append(out, loopback.Port{
				Protocol: s.Name.Protocol, Listen: netip.AddrPortFrom(address, s.NodePort), Forward: netip.AddrPortFrom(nodeIPs[0], s.NodePort),
			})
		}
	}
	return out
}

func (f *family) sync(ctx context.Context, snap *model.Snapshot, netNS string) error {
	rs := rules.Build(snap, f.rules)
	if err := f.table.Apply(ctx, rs); err != nil {
		return err
	}
	f.last = rs
	// Flows are forgotten after the rules are in place: their next packet then finds the new endpoints.
	view := conntrack.NewView(snap)
	if view.Empty() || reflect.DeepEqual(view, f.udp) {
		f.udp = view
		return nil
	}
	n, err := conntrack.Clean(netNS, f.name, view)
	if err != nil {
		return fmt.Errorf("forgetting stale UDP flows: %w", err)
	}
	if n > 0 {
		klog.FromContext(ctx).V(2).Info("Forgot stale UDP flows", "family", f.name, "flows", n)
	}
	f.udp = view
	return nil
}

// verify tells whether the rules are still in the kernel.
func (p *Proxy) verify(ctx context.Context) bool {
	log := klog.FromContext(ctx)
	for _, f := range p.families {
		if f.last == nil {
			return false
		}
		intact, err := f.table.Check(ctx, f.last)
		switch {
		case ctx.Err() != nil:
			return true
		case err != nil:
			log.Error(err, "Verifying service rules failed", "family", f.name)
			return false
		case !intact:
			log.Info("Service rules were removed by somebody, writing them again", "family", f.name)
			return false
		}
	}
	return true
}

// Purge removes every rule and chain of the cluster from the node. Call it when no Proxy of the cluster runs there.
func (p *Proxy) Purge(ctx context.Context) error { return Purge(ctx, p.config) }

// Purge is the method of that name for a caller without a Proxy; only Cluster, NetNS and Commands of the config are used.
func Purge(ctx context.Context, config Config) error {
	if err := config.complete(); err != nil {
		return err
	}
	var errs []error
	for _, f := range []model.Family{model.IPv4, model.IPv6} {
		table := iptables.New(config.Commands(f), rules.ChainsOf(config.Cluster))
		err := table.Purge(ctx)
		if err != nil && f == model.IPv6 && !hasIPv6() {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("removing %s service rules: %w", f, err))
		}
	}
	return errors.Join(errs...)
}

func hasIPv6() bool {
	_, err := os.Stat("/proc/net/if_inet6")
	return err == nil
}

// poke asks the loop for a sync. Any number of pokes before it becomes one.
func (p *Proxy) poke() {
	select {
	case p.trigger <- struct{}{}:
	default:
	}
}

func (p *Proxy) watch() (stop func(), err error) {
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.poke() },
		UpdateFunc: func(_, _ any) { p.poke() },
		DeleteFunc: func(any) { p.poke() },
	}
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
	add(p.services, changed)
	add(p.slices, cache.FilteringResourceEventHandler{FilterFunc: serviceSlice, Handler: changed})
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

func serviceSlice(o any) bool {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	s, ok := o.(*discoveryv1.EndpointSlice)
	return ok && s.Labels[discoveryv1.LabelServiceName] != ""
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
	p.status.Eligible = eligible
	p.mu.Unlock()
	old, _ := before.(*corev1.Node)
	if old == nil || old.Labels[corev1.LabelTopologyZone] != n.Labels[corev1.LabelTopologyZone] {
		p.poke()
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

func (p *Proxy) serveHealthz(ctx context.Context) (stop func(), err error) {
	if p.config.HealthzAddr == "" {
		return func() {}, nil
	}
	ln, err := health.Listen(p.config.NetNS, p.config.HealthzAddr)
	if err != nil {
		return nil, fmt.Errorf("listening for health checks on %q: %w", p.config.HealthzAddr, err)
	}
	srv := &http.Server{Handler: health.Handler(p.Status), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Serving health checks failed")
		}
	}()
	return func() {
		_ = srv.Close() // nothing of it is needed any more
		<-done
	}, nil
}
