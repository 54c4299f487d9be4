// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package sharing keeps in memory once what is equal: in the versions of an object that a watch cache remembers, in objects that were
// made alike, and in the copies that informers of the same process have. Touch it when a kind takes too much memory.
package sharing

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"minik8s.io/minik8s/pkg/interning"
)

// Objects are the last versions that watch caches got of their objects. Nobody may change an object that has gone through it, as nobody
// may change what is in a watch cache or an informer. The zero value is ready; its methods are safe for concurrent use.
type Objects struct {
	kinds sync.Map // from reflect.Type to *kind
}

// kind is the objects of one type.
type kind struct {
	mu     sync.RWMutex
	last   map[types.NamespacedName]runtime.Object // guarded by mu, like newest
	newest types.NamespacedName                    // of the one that was added last
}

func (o *Objects) kind(t reflect.Type) *kind {
	k, ok := o.kinds.Load(t)
	if !ok {
		k, _ = o.kinds.LoadOrStore(t, &kind{last: map[types.NamespacedName]runtime.Object{}})
	}
	return k.(*kind)
}

func nameOf(m metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
}

// get returns the last version of an object; nil: none is known.
func (k *kind) get(name types.NamespacedName) runtime.Object {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.last[name]
}

// alike returns what an object of this name may have most in common with: its last version, or else what was made before it, maybe from
// the same template.
func (k *kind) alike(name types.NamespacedName) (runtime.Object, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if last, ok := k.last[name]; ok {
		return last, true
	}
	newest, ok := k.last[k.newest]
	return newest, ok
}

// put keeps a new version, or none.
func (k *kind) put(name types.NamespacedName, obj runtime.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if obj == nil {
		delete(k.last, name)
		return
	}
	if _, ok := k.last[name]; !ok {
		k.newest = name
	}
	k.last[name] = obj
}

// forget is for when all is about to be told anew, but not what is gone.
func (k *kind) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.last)
}

// Transform is a cache.TransformFunc for informers that nobody changes objects of. It gives them the watch cache's own object, if theirs
// is equal. Of kinds that no watch cache has it drops who wrote which field, for that would be in memory for the informer alone.
func (o *Objects) Transform(obj any) (any, error) {
	m, ok := obj.(metav1.Object)
	received, typed := obj.(runtime.Object)
	if !ok || !typed {
		return obj, nil
	}
	k, ok := o.kinds.Load(reflect.TypeOf(obj))
	if !ok {
		m.SetManagedFields(nil)
		return obj, nil
	}
	// An informer that fills itself has its objects transformed twice: this may be one that everybody has by now, and is not touched.
	if last := k.(*kind).get(nameOf(m)); last != nil && interning.Equal(last, received) {
		return last, nil
	}
	return obj, nil
}

// Storage is s for a watch cache of objects like this one, and for nobody else: what it lists, and what its watches tell, shares memory.
func (o *Objects) Storage(s storage.Interface, example runtime.Object) storage.Interface {
	if _, untyped := example.(runtime.Unstructured); untyped {
		return s // all kinds of custom resources are of one type
	}
	return &sharedStorage{Interface: s, kind: o.kind(reflect.TypeOf(example))}
}

type sharedStorage struct {
	storage.Interface
	kind *kind
}

// GetList implements storage.Interface. Watch caches begin with it if a watch does not tell what there is.
func (s *sharedStorage) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if err := s.Interface.GetList(ctx, key, opts, list); err != nil {
		return err
	}
	if opts.Predicate.Continue == "" {
		s.kind.forget()
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		s.kind.received(watch.Event{Type: watch.Added, Object: item})
		return nil
	})
}

// Watch implements storage.Interface.
func (s *sharedStorage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	w, err := s.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		s.kind.forget()
	}
	return newWatcher(w, s.kind), nil
}

// watcher passes on what another one tells.
type watcher struct {
	watch.Interface
	kind   *kind
	result chan watch.Event

	stop    sync.Once
	stopped chan struct{}
}

func newWatcher(w watch.Interface, k *kind) *watcher {
	out := &watcher{Interface: w, kind: k, result: make(chan watch.Event, 16), stopped: make(chan struct{})}
	go out.run()
	return out
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *watcher) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.Interface.Stop()
}

func (w *watcher) run() {
	defer close(w.result)
	for e := range w.Interface.ResultChan() {
		w.kind.received(e)
		select {
		case w.result <- e:
		case <-w.stopped:
			return
		}
	}
}

// received shares what is new with what is there, and keeps it.
func (k *kind) received(e watch.Event) {
	if e.Type != watch.Added && e.Type != watch.Modified && e.Type != watch.Deleted {
		return
	}
	obj := e.Object
	if timed, ok := obj.(storage.WatchEventWithRecordTime); ok {
		obj = timed.Unwrap()
	}
	m, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	name := nameOf(m)
	if known, ok := k.alike(name); ok {
		interning.Share(known, obj)
	}
	if e.Type == watch.Deleted {
		obj = nil
	}
	k.put(name, obj)
}
