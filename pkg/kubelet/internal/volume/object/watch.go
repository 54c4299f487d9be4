// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

type object interface {
	runtime.Object
	metav1.Object
}

// item is one object. It is the store that its reflector fills.
type item struct {
	ref    Ref
	pods   map[types.UID]bool // guarded by Cache.mu
	cancel context.CancelFunc
	notify func(Ref)

	synced chan struct{}
	once   sync.Once

	mu  sync.Mutex
	obj object // nil if it does not exist
}

// watch starts the reflector of an item; Cache.mu is held.
func (c *Cache) watch(ref Ref) *item {
	ctx, cancel := context.WithCancel(c.ctx)
	it := &item{ref: ref, pods: map[types.UID]bool{}, cancel: cancel, notify: c.notify, synced: make(chan struct{})}
	reflector := cache.NewReflectorWithOptions(c.listWatch(ref), expected(ref.Kind), it, cache.ReflectorOptions{
		Name: "kubelet-" + string(ref.Kind),
		// A watch must not end so seldom that the API server holds many of long gone nodes.
		MinWatchTimeout: 30 * time.Minute,
	})
	c.running.Go(func() {
		defer cancel()
		reflector.RunWithContext(ctx)
	})
	return it
}

func (c *Cache) listWatch(ref Ref) cache.ListerWatcher {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()
	core := c.client.CoreV1()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			if ref.Kind == Secret {
				return core.Secrets(ref.Namespace).List(ctx, o)
			}
			return core.ConfigMaps(ref.Namespace).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			if ref.Kind == Secret {
				return core.Secrets(ref.Namespace).Watch(ctx, o)
			}
			return core.ConfigMaps(ref.Namespace).Watch(ctx, o)
		},
	}
	return cache.ToListWatcherWithWatchListSemantics(lw, c.client)
}

func expected(k Kind) any {
	if k == Secret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}

func (it *item) load() object {
	it.mu.Lock()
	defer it.mu.Unlock()
	return it.obj
}

// store takes the new state and tells the pods about it, unless it is the first or the same.
func (it *item) store(obj object) {
	it.mu.Lock()
	old := it.obj
	it.obj = obj
	it.mu.Unlock()
	first := false
	it.once.Do(func() { first = true; close(it.synced) })
	if !first && version(old) != version(obj) {
		it.notify(it.ref)
	}
	// An immutable object never changes, so that watching it would be a waste (upstream: KEP-1412).
	if immutable(obj) {
		it.cancel()
	}
}

func version(o object) string {
	if o == nil {
		return ""
	}
	return string(o.GetUID()) + "/" + o.GetResourceVersion()
}

func immutable(o object) bool {
	switch o := o.(type) {
	case *corev1.ConfigMap:
		return o.Immutable != nil && *o.Immutable
	case *corev1.Secret:
		return o.Immutable != nil && *o.Immutable
	}
	return false
}

// Add implements cache.ReflectorStore, as do all that follow.
func (it *item) Add(obj any) error {
	if o, ok := obj.(object); ok && o.GetName() == it.ref.Name {
		it.store(o)
	}
	return nil
}

func (it *item) Update(obj any) error { return it.Add(obj) }

func (it *item) Delete(obj any) error {
	if o, ok := obj.(object); ok && o.GetName() == it.ref.Name {
		it.store(nil)
	}
	return nil
}

func (it *item) Replace(list []any, _ string) error {
	for _, obj := range list {
		if o, ok := obj.(object); ok && o.GetName() == it.ref.Name {
			it.store(o)
			return nil
		}
	}
	it.store(nil)
	return nil
}

func (it *item) Resync() error { return nil }
