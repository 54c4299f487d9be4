// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
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
	services   cache.SharedIndexInformer
	slices     cache.SharedIndexInformer
	namespaces cache.SharedIndexInformer
	pods       cache.SharedIndexInformer // nil unless pods are verified
	serviceL   corelisters.ServiceLister
	trigger    chan struct{}

	mu              sync.Mutex
	dirty           map[index.Key]bool // guarded by mu
	dirtyNamespaces bool               // guarded by mu
	dirtyPods       bool               // guarded by mu
	// byService finds the slices of a service. Informers refuse new indexers once they run, and ours may be running
	// for somebody else already.
	byService map[index.Key]map[string]*discoveryv1.EndpointSlice // guarded by mu
	// holder is the service that a slice, by namespace and name, is filed under.
	holder map[index.Key]index.Key // guarded by mu
}

func newWatcher(config Config, target *atomic.Pointer[index.Index]) *watcher {
	w := &watcher{
		config: config, target: target,
		services:   config.Informers.Core().V1().Services().Informer(),
		slices:     config.Informers.Discovery().V1().EndpointSlices().Informer(),
		namespaces: config.Informers.Core().V1().Namespaces().Informer(),
		serviceL:   config.Informers.Core().V1().Services().Lister(),
		trigger:    make(chan struct{}, 1),
		dirty:      map[index.Key]bool{}, dirtyNamespaces: true, dirtyPods: config.VerifyPods,
		byService: map[index.Key]map[string]*discoveryv1.EndpointSlice{},
		holder:    map[index.Key]index.Key{},
	}
	if config.VerifyPods {
		w.pods = config.Informers.Core().V1().Pods().Informer()
	}
	return w
}

func (w *watcher) run(ctx context.Context) error {
	watches := []struct {
		informer cache.SharedIndexInformer
		changed  func(obj any, gone bool)
	}{
		{w.services, w.serviceChanged},
		{w.slices, w.sliceChanged},
		{w.namespaces, func(any, bool) { w.dirtyNamespaces = true }},
	}
	if w.pods != nil {
		watches = append(watches, struct {
			informer cache.SharedIndexInformer
			changed  func(obj any, gone bool)
		}{w.pods, func(any, bool) { w.dirtyPods = true }})
	}
	var synced []cache.InformerSynced
	for _, watch := range watches {
		note := func(obj any, gone bool) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			w.mu.Lock()
			watch.changed(obj, gone)
			w.mu.Unlock()
			w.poke()
		}
		reg, err := watch.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { note(o, false) },
			UpdateFunc: func(_, o any) { note(o, false) },
			DeleteFunc: func(o any) { note(o, true) },
		})
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

func (w *watcher) poke() {
	select {
	case w.trigger <- struct{}{}:
	default:
	}
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

// update computes and publishes the next state.
func (w *watcher) update() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	current := w.target.Load()
	if current == nil {
		current = index.Empty(uint32(w.config.Clock.Now().Unix()))
	} else if len(w.dirty) == 0 && !w.dirtyNamespaces && !w.dirtyPods {
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
		var err error
		if changes.Pods, err = w.podAddrs(); err != nil {
			return err
		}
	}
	w.target.Store(current.With(changes))
	clear(w.dirty)
	w.dirtyNamespaces, w.dirtyPods = false, false
	return nil
}

func (w *watcher) podAddrs() (map[index.PodKey]bool, error) {
	pods, err := w.config.Informers.Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	out := make(map[index.PodKey]bool, len(pods))
	for _, p := range pods {
		for _, ip := range p.Status.PodIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil {
				out[index.PodKey{Namespace: p.Namespace, Addr: a.Unmap()}] = true
			}
		}
	}
	return out, nil
}
