// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/dns/internal/index"
)

// watcher keeps the index current. Events only note what is dirty; one goroutine computes the next state of all that is dirty
// at the time, so a burst of changes costs one copy of the index.
type watcher struct {
	config     Config
	target     *atomic.Pointer[index.Index]
	clients    *clients
	services   cache.SharedIndexInformer
	slices     cache.SharedIndexInformer
	namespaces cache.SharedIndexInformer
	nodes      cache.SharedIndexInformer
	serviceL   corelisters.ServiceLister
	trigger    chan struct{}
	// verifies are requests to watch pods, or to end that.
	verifies chan bool
	// named is closed when it is known which Dns objects there are.
	named chan struct{}

	mu              sync.Mutex
	dirty           map[index.Key]bool // guarded by mu
	dirtyNamespaces bool               // guarded by mu
	dirtyPods       bool               // guarded by mu
	dirtyHosts      bool               // guarded by mu
	// byService finds the slices of a service. Informers refuse new indexers once they run, and ours may be running
	// for somebody else already.
	byService map[index.Key]map[string]*discoveryv1.EndpointSlice // guarded by mu
	// holder is the service that a slice, by namespace and name, is filed under.
	holder map[index.Key]index.Key // guarded by mu
	// pods is nil unless pods are verified.
	pods cache.Store // guarded by mu
	// dns has the Dns objects; nil unless they are defined.
	dns cache.Store // guarded by mu
	// addrs are the addresses of each node.
	addrs map[string][]netip.Addr // guarded by mu
}

func newWatcher(config Config, target *atomic.Pointer[index.Index], clients *clients) *watcher {
	return &watcher{
		config: config, target: target, clients: clients,
		services:   config.Informers.Core().V1().Services().Informer(),
		slices:     config.Informers.Discovery().V1().EndpointSlices().Informer(),
		namespaces: config.Informers.Core().V1().Namespaces().Informer(),
		nodes:      config.Informers.Core().V1().Nodes().Informer(),
		serviceL:   config.Informers.Core().V1().Services().Lister(),
		trigger:    make(chan struct{}, 1),
		verifies:   make(chan bool, 1),
		named:      make(chan struct{}),
		dirty:      map[index.Key]bool{}, dirtyNamespaces: true,
		byService: map[index.Key]map[string]*discoveryv1.EndpointSlice{},
		holder:    map[index.Key]index.Key{},
		addrs:     map[string][]netip.Addr{},
	}
}

func (w *watcher) run(ctx context.Context) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	beside.Go(func() { w.followPods(ctx) })
	beside.Go(func() { w.followNames(ctx) })

	watches := []struct {
		informer cache.SharedIndexInformer
		changed  func(obj any, gone bool)
	}{
		{w.services, w.serviceChanged},
		{w.slices, w.sliceChanged},
		{w.namespaces, func(any, bool) { w.dirtyNamespaces = true }},
		{w.nodes, w.nodeChanged},
	}
	var synced []cache.InformerSynced
	for _, watch := range watches {
		reg, err := watch.informer.AddEventHandler(w.handler(watch.changed))
		if err != nil {
			if ctx.Err() != nil {
				return nil // the informers of the caller stopped first
			}
			return fmt.Errorf("dns: watching: %w", err)
		}
		defer func() { _ = watch.informer.RemoveEventHandler(reg) }()
		synced = append(synced, reg.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	w.awaitNames(ctx)
	for {
		if err := w.update(); err != nil {
			klog.FromContext(ctx).Error(err, "Updating the index failed")
		}
		select {
		case <-w.trigger:
		case <-ctx.Done():
			return nil
		}
	}
}

// handler calls changed with the lock held.
func (w *watcher) handler(changed func(obj any, gone bool)) cache.ResourceEventHandler {
	note := func(obj any, gone bool) {
		if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = t.Obj
		}
		w.mu.Lock()
		changed(obj, gone)
		w.mu.Unlock()
		w.poke()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { note(o, false) },
		UpdateFunc: func(_, o any) { note(o, false) },
		DeleteFunc: func(o any) { note(o, true) },
	}
}

func (w *watcher) poke() {
	select {
	case w.trigger <- struct{}{}:
	default:
	}
}

// verify has pods watched, or that ended. Who follows looks at the last request only.
func (w *watcher) verify(on bool) {
	for {
		select {
		case w.verifies <- on:
			return
		default:
		}
		select {
		case <-w.verifies:
		default:
		}
	}
}

// followPods watches pods as long as names of pods are verified: they are many, and otherwise nobody asks.
func (w *watcher) followPods(ctx context.Context) {
	var running sync.WaitGroup
	stop := func() {}
	defer func() {
		stop()
		running.Wait()
	}()
	on := false
	for {
		select {
		case <-ctx.Done():
			return
		case want := <-w.verifies:
			if want == on {
				continue
			}
			on = want
		}
		stop()
		running.Wait()
		stop = func() {}
		var store cache.Store
		if on {
			informer := informers.NewSharedInformerFactoryWithOptions(w.config.Client, 0, informers.WithTransform(onlyAddresses)).Core().V1().Pods().Informer()
			if _, err := informer.AddEventHandler(w.handler(func(any, bool) { w.dirtyPods = true })); err != nil {
				klog.FromContext(ctx).Error(err, "Watching pods failed")
				continue
			}
			watching, cancel := context.WithCancel(ctx)
			stop = cancel
			running.Go(func() { informer.RunWithContext(watching) })
			store = informer.GetStore()
		}
		w.mu.Lock()
		w.pods, w.dirtyPods = store, true
		w.mu.Unlock()
		w.poke()
	}
}

// onlyAddresses leaves of a pod what podAddrs looks at, so that little is kept.
func onlyAddresses(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion, DeletionTimestamp: p.DeletionTimestamp,
		},
		Status: corev1.PodStatus{PodIPs: p.Status.PodIPs, Phase: p.Status.Phase},
	}, nil
}

func (w *watcher) serviceChanged(obj any, _ bool) {
	if s, ok := obj.(*corev1.Service); ok {
		w.dirty[index.Key{Namespace: s.Namespace, Name: s.Name}] = true
	}
}

func (w *watcher) sliceChanged(obj any, gone bool) {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	key := index.Key{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
	self := index.Key{Namespace: s.Namespace, Name: s.Name}
	// The label may have changed, so the slice is taken from wherever it was.
	if old, ok := w.holder[self]; ok && (gone || old != key) {
		delete(w.byService[old], s.Name)
		if len(w.byService[old]) == 0 {
			delete(w.byService, old)
		}
		delete(w.holder, self)
		w.dirty[old] = true
	}
	if gone || key.Name == "" {
		return
	}
	if w.byService[key] == nil {
		w.byService[key] = map[string]*discoveryv1.EndpointSlice{}
	}
	w.byService[key][s.Name] = s
	w.holder[self] = key
	w.dirty[key] = true
}

// nodeChanged publishes who may ask at once. Most events of nodes change no address.
func (w *watcher) nodeChanged(obj any, gone bool) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	delete(w.addrs, n.Name)
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && !gone {
			w.addrs[n.Name] = append(w.addrs[n.Name], ip.Unmap())
		}
	}
	all := map[netip.Addr]bool{}
	for _, addrs := range w.addrs {
		for _, a := range addrs {
			all[a] = true
		}
	}
	w.clients.nodes.Store(&all)
}

// update computes and publishes the next state.
func (w *watcher) update() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	current := w.target.Load()
	if current == nil {
		current = index.Empty(uint32(w.config.Clock.Now().Unix()))
	} else if len(w.dirty) == 0 && !w.dirtyNamespaces && !w.dirtyPods && !w.dirtyHosts {
		return nil
	}
	changes := index.Changes{Services: make(map[index.Key]*index.Service, len(w.dirty))}
	for key := range w.dirty {
		svc, err := w.serviceL.Services(key.Namespace).Get(key.Name)
		if apierrors.IsNotFound(err) {
			changes.Services[key] = nil
			continue
		}
		if err != nil {
			return fmt.Errorf("getting service %q: %w", key.Namespace+"/"+key.Name, err)
		}
		var slices []*discoveryv1.EndpointSlice
		for _, s := range w.byService[key] {
			slices = append(slices, s)
		}
		changes.Services[key] = index.NewService(svc, slices)
	}
	if w.dirtyNamespaces {
		changes.Namespaces = map[string]bool{}
		for _, name := range w.namespaces.GetStore().ListKeys() {
			changes.Namespaces[name] = true
		}
	}
	if w.dirtyPods {
		changes.Pods = podAddrs(w.pods)
	}
	if w.dirtyHosts {
		changes.Hosts = hostsOf(w.dns)
	}
	w.target.Store(current.With(changes))
	clear(w.dirty)
	w.dirtyNamespaces, w.dirtyPods, w.dirtyHosts = false, false, false
	return nil
}

// ended are the phases of pods whose names are not told.
var ended = []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown}

// podAddrs are the addresses of the pods in a store, which may be nil. Those that have ended or shall end are left out, as in CoreDNS: their
// addresses may be those of others already.
func podAddrs(store cache.Store) map[index.PodKey]bool {
	out := map[index.PodKey]bool{}
	if store == nil {
		return out
	}
	for _, obj := range store.List() {
		p, ok := obj.(*corev1.Pod)
		if !ok || p.DeletionTimestamp != nil || slices.Contains(ended, p.Status.Phase) {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil {
				out[index.PodKey{Namespace: p.Namespace, Addr: a.Unmap()}] = true
			}
		}
	}
	return out
}
