// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Observers know how much of each kind a cache has seen. All clients of a cache share them. Safe for concurrent use.
type Observers struct {
	informers cache.Informers

	mu sync.Mutex
	// kinds is guarded by mu.
	kinds map[schema.GroupVersionKind]*observer

	// indexers has an indexed for each type of list.
	indexers sync.Map
}

// NewObservers returns the observers of a cache.
func NewObservers(informers cache.Informers) *Observers {
	return &Observers{informers: informers, kinds: map[schema.GroupVersionKind]*observer{}}
}

// observer returns that of a kind, which may not listen yet.
func (o *Observers) observer(gvk schema.GroupVersionKind) *observer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kinds[gvk] == nil {
		o.kinds[gvk] = &observer{}
	}
	return o.kinds[gvk]
}

// observe returns the observer of a kind once it has heard of all objects that there are. A write comes after that, so that none
// is missed.
func (o *Observers) observe(ctx context.Context, gvk schema.GroupVersionKind, obj client.Object) (*observer, error) {
	kind := o.observer(gvk)
	kind.listening.Lock()
	defer kind.listening.Unlock()
	if kind.isListening {
		return kind, nil
	}
	if kind.registration == nil {
		informer, err := o.informers.GetInformer(ctx, obj)
		if err != nil {
			return nil, fmt.Errorf("getting the informer of %s: %w", gvk.Kind, err)
		}
		if kind.registration, err = informer.AddEventHandler(kind); err != nil {
			return nil, fmt.Errorf("listening to the informer of %s: %w", gvk.Kind, err)
		}
	}
	select {
	case <-kind.registration.HasSyncedChecker().Done():
		kind.isListening = true
		return kind, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the informer of %s: %w", gvk.Kind, ctx.Err())
	}
}

// observer follows the events of a kind.
type observer struct {
	// listening guards isListening and registration.
	listening    sync.Mutex
	isListening  bool
	registration toolscache.ResourceEventHandlerRegistration

	mu sync.Mutex
	// version is the highest one seen; it is guarded by mu.
	version int64
	// next, unless it is nil, is closed with the next event; it is guarded by mu.
	next chan struct{}
}

// OnAdd implements toolscache.ResourceEventHandler.
func (o *observer) OnAdd(obj any, _ bool) { o.see(obj) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (o *observer) OnUpdate(_, obj any) { o.see(obj) }

// OnDelete implements toolscache.ResourceEventHandler.
func (o *observer) OnDelete(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	o.see(obj)
}

func (o *observer) see(obj any) {
	version := int64(0)
	if object, ok := obj.(client.Object); ok {
		version, _ = strconv.ParseInt(object.GetResourceVersion(), 10, 64) // the API server has no others
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.version = max(o.version, version)
	if o.next != nil {
		close(o.next)
		o.next = nil
	}
}

// seen returns the highest version seen, and what is closed with the next event.
func (o *observer) seen() (int64, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == nil {
		o.next = make(chan struct{})
	}
	return o.version, o.next
}

// wait returns when reached, which is asked after each event, says so.
func (o *observer) wait(ctx context.Context, reached func(version int64) bool) error {
	for {
		version, next := o.seen()
		if reached(version) {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
