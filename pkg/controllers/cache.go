// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newCache returns a cache whose informers call the event handlers of all controllers one after the other. By itself an informer
// has two goroutines and a buffer of a thousand events a handler, and there are two dozen handlers of pods. So no handler may
// wait for anything.
func newCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	inner, err := cache.New(config, opts)
	if err != nil {
		return nil, err
	}
	return &sharingCache{Cache: inner, informers: map[toolscache.SharedIndexInformer]*informer{}}, nil
}

type sharingCache struct {
	cache.Cache

	mu sync.Mutex
	// informers is guarded by mu.
	informers map[toolscache.SharedIndexInformer]*informer
}

// GetInformer implements cache.Informers.
func (c *sharingCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	i, err := c.Cache.GetInformer(ctx, obj, opts...)
	return c.shared(i), err
}

// GetInformerForKind implements cache.Informers.
func (c *sharingCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	i, err := c.Cache.GetInformerForKind(ctx, gvk, opts...)
	return c.shared(i), err
}

// shared leaves an informer that is made of several, one a namespace, as it is: kinds of which only a part is cached have few
// handlers.
func (c *sharingCache) shared(i cache.Informer) cache.Informer {
	inner, ok := i.(toolscache.SharedIndexInformer)
	if !ok {
		return i
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.informers[inner] == nil {
		c.informers[inner] = &informer{SharedIndexInformer: inner}
	}
	return c.informers[inner]
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
