// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// newCache returns a function that makes a cache whose informers call the event handlers of all controllers one after the other,
// and adds them to informers. By itself an informer has two goroutines and a buffer of a thousand events a handler, and there are
// two dozen handlers of pods. So no handler may wait for anything.
func newCache(informers *ownwrites.Informers) cache.NewCacheFunc {
	return func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
		if !features.FeatureGates().Enabled(features.AtomicFIFO) {
			return nil, errors.New("controllers need client-go's feature AtomicFIFO: without it no store tells how far it has got")
		}
		opts.NewInformer = func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			i := &informer{SharedIndexInformer: toolscache.NewSharedIndexInformer(lw, obj, resync, indexers)}
			if err := informers.Add(obj, i); err != nil {
				panic(err) // the cache has just told the kind of obj by the same scheme
			}
			return i
		}
		return cache.New(config, opts)
	}
}

// informer listens to another one and calls its handlers.
type informer struct {
	toolscache.SharedIndexInformer

	// mu guards the following, and lets a handler that comes late hear of all objects before it hears of a change. It may hear
	// of one twice.
	mu           sync.Mutex
	registration toolscache.ResourceEventHandlerRegistration
	handlers     []*registration
}

// registration is a handler.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
	handler toolscache.ResourceEventHandler
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithOptions implements cache.Informer. Nobody here asks for other options than a logger, which is for the time
// that a handler takes.
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.registration == nil {
		var err error
		if i.registration, err = i.SharedIndexInformer.AddEventHandler(i); err != nil {
			return nil, err
		}
	} else {
		for _, obj := range i.GetStore().List() {
			handler.OnAdd(obj, true)
		}
	}
	r := &registration{ResourceEventHandlerRegistration: i.registration, handler: handler}
	i.handlers = append(i.handlers, r)
	return r, nil
}

// RemoveEventHandler implements cache.Informer.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(i.handlers, func(r *registration) bool { return r == handle })
	return nil
}

// OnAdd implements toolscache.ResourceEventHandler.
func (i *informer) OnAdd(obj any, isInInitialList bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, r := range i.handlers {
		r.handler.OnAdd(obj, isInInitialList)
	}
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (i *informer) OnUpdate(before, after any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, r := range i.handlers {
		r.handler.OnUpdate(before, after)
	}
}

// OnDelete implements toolscache.ResourceEventHandler.
func (i *informer) OnDelete(obj any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, r := range i.handlers {
		r.handler.OnDelete(obj)
	}
}
