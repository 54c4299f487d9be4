// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/addons/apis/networking/v1alpha1"
	"minik8s.io/minik8s/pkg/dns/internal/index"
)

// namesTime is how long the first answer waits for the names of Dns objects: who may not see them would wait for ever.
const namesTime = 2 * time.Second

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// awaitNames waits until it is known which Dns objects there are, but not for ever.
func (w *watcher) awaitNames(ctx context.Context) {
	limit := time.NewTimer(namesTime)
	defer limit.Stop()
	select {
	case <-w.named:
	case <-limit.C:
		klog.FromContext(ctx).Info("It is not known whether there are Dns objects, cluster DNS answers without their names")
	case <-ctx.Done():
	}
}

// followNames watches Dns objects while they are defined. Without the definition there is one watch, of nothing.
func (w *watcher) followNames(ctx context.Context) {
	var once sync.Once
	known := func() { once.Do(func() { close(w.named) }) }
	if w.config.Dynamic == nil {
		known()
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	definition := dynamicinformer.NewFilteredDynamicInformer(w.config.Dynamic, definitions, metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.Definition).String()
	}).Informer()
	err := definition.SetTransform(onlyConditions)
	if err == nil {
		_, err = definition.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { poke() }, UpdateFunc: func(any, any) { poke() }, DeleteFunc: func(any) { poke() },
		})
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Watching the definition of Dns objects failed")
		return
	}
	running.Go(func() { definition.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), definition.HasSynced) {
		return
	}
	stop := func() {}
	defer func() { stop() }()
	for on := false; ; {
		if want := slices.ContainsFunc(definition.GetStore().List(), established); want != on {
			on = want
			stop()
			stop = w.watchNames(ctx, on, known)
		}
		if !on {
			known()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// watchNames begins to watch Dns objects if they are defined, and calls known when all are. stop returns when that has ended.
func (w *watcher) watchNames(ctx context.Context, defined bool, known func()) (stop func()) {
	stop = func() {}
	var store cache.Store
	if defined {
		informer := dynamicinformer.NewFilteredDynamicInformer(w.config.Dynamic, v1alpha1.Resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
		err := informer.SetTransform(onlyNames)
		if err == nil {
			_, err = informer.AddEventHandler(w.handler(func(any, bool) { w.dirtyHosts = true }))
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "Watching Dns objects failed")
			return stop
		}
		watching, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { informer.RunWithContext(watching) })
		running.Go(func() {
			if cache.WaitForCacheSync(watching.Done(), informer.HasSynced) {
				known()
			}
		})
		stop = func() {
			cancel()
			running.Wait()
		}
		store = informer.GetStore()
	}
	w.mu.Lock()
	w.dns, w.dirtyHosts = store, true
	w.mu.Unlock()
	w.poke()
	return stop
}

// onlyConditions leaves of a definition what established looks at: the schema is large.
func onlyConditions(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetName(u.GetName())
	out.SetResourceVersion(u.GetResourceVersion())
	out.SetDeletionTimestamp(u.GetDeletionTimestamp())
	// Those of a new definition are null, which is no list.
	if conditions, found, err := unstructured.NestedSlice(u.Object, "status", "conditions"); found && err == nil {
		return out, unstructured.SetNestedSlice(out.Object, conditions, "status", "conditions")
	}
	return out, nil
}

// established tells whether what a definition defines is served.
func established(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || u.GetDeletionTimestamp() != nil {
		return false
	}
	conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	return err == nil && slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == "Established" && m["status"] == "True"
	})
}

// onlyNames leaves of a Dns object its host and its addresses.
func onlyNames(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	d := &v1alpha1.Dns{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
		// The object is as good as not there; no other one has to suffer for it.
		klog.Background().Error(err, "A Dns object cannot be read", "dns", klog.KObj(u))
	}
	return &v1alpha1.Dns{
		ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()},
		Spec:       v1alpha1.DnsSpec{Host: d.Spec.Host},
		Status:     v1alpha1.DnsStatus{Addresses: d.Status.Addresses},
	}, nil
}

// hostsOf are the names in a store, which may be nil, that have addresses: those that the router serves.
func hostsOf(store cache.Store) map[string]index.Host {
	out := map[string]index.Host{}
	if store == nil {
		return out
	}
	for _, obj := range store.List() {
		d, ok := obj.(*v1alpha1.Dns)
		if !ok || d.Spec.Host == "" {
			continue
		}
		name := dns.Fqdn(strings.ToLower(d.Spec.Host))
		host := out[name]
		for _, text := range d.Status.Addresses {
			if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(host.Addrs, a.Unmap()) {
				host.Addrs = append(host.Addrs, a.Unmap())
			}
		}
		if len(host.Addrs) > 0 {
			host.Namespace = d.Namespace
			out[name] = host
		}
	}
	return out
}
