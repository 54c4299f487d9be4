// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package garbagecollector deletes objects whose owners are gone, and carries out foreground and orphaning deletion. Touch
// graph.go for what it remembers, attempt.go for what it decides and monitor.go for what it watches.
package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// syncPeriod is how often the API server is asked for new resources.
	syncPeriod = 30 * time.Second
	// syncDelay is how long after a change of definitions, by which they are served.
	syncDelay = time.Second
	// syncTimeout is how long the first list of a resource is waited for.
	syncTimeout = 30 * time.Second
	// minWorkers is the number of objects looked at in parallel, if no more are allowed for all controllers: one object may have
	// thousands of dependents. Upstream's --concurrent-gc-syncs.
	minWorkers = 20
	// absentOwners is the number of owners that are remembered not to exist.
	absentOwners = 500
)

// Collector is the garbage collector. It is a runnable of the manager with watches of its own, for it needs the metadata of
// every resource, known to this program or not. What other controllers watch it sees through their cache.
type Collector struct {
	metadata  metadata.Interface
	shared    cache.Informers
	discovery discovery.DiscoveryInterfaceWithContext
	mapper    meta.RESTMapper
	events    record.EventRecorder
	clock     clock.WithTicker
	workers   int

	graph    *Graph
	absent   *lru.Cache
	monitors monitors
	queue    workqueue.TypedRateLimitingInterface[Task]
	// defined has a value when the API server may have other resources than before.
	defined chan struct{}
}

// Config is what a Collector works with. All fields are required that do not say otherwise.
type Config struct {
	// Metadata reads, patches and deletes objects of any kind.
	Metadata metadata.Interface
	// Shared, if set, has the objects of some built-in kinds.
	Shared cache.Informers
	// Discovery lists the resources.
	Discovery discovery.DiscoveryInterfaceWithContext
	// Mapper finds the resource of an owner's kind; it has to learn of new kinds by itself.
	Mapper meta.RESTMapper
	// Events records owner references that cannot be resolved.
	Events record.EventRecorder
	// Clock is the source of time.
	Clock clock.WithTicker
	// Workers is the number of objects looked at in parallel.
	Workers int
}

// New returns a collector.
func New(cfg Config) *Collector {
	return &Collector{
		metadata:  cfg.Metadata,
		shared:    cfg.Shared,
		discovery: cfg.Discovery,
		mapper:    cfg.Mapper,
		events:    cfg.Events,
		clock:     cfg.Clock,
		workers:   cfg.Workers,
		graph:     NewGraph(),
		absent:    lru.New(absentOwners),
		monitors:  monitors{running: map[schema.GroupVersionResource]*monitor{}},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[Task](),
			workqueue.TypedRateLimitingQueueConfig[Task]{Name: "garbagecollector"}),
		defined: make(chan struct{}, 1),
	}
}

// Setup adds the collector to the manager.
func Setup(env setup.Env) error {
	meta, err := metadata.NewForConfigAndClient(metadata.ConfigFor(env.RESTConfig), env.HTTPClient)
	if err != nil {
		return fmt.Errorf("creating the metadata client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(env.RESTConfig, env.HTTPClient)
	if err != nil {
		return fmt.Errorf("creating the discovery client: %w", err)
	}
	return env.Manager.Add(New(Config{
		Metadata:  meta,
		Shared:    env.Manager.GetCache(),
		Discovery: disco,
		Mapper:    env.Manager.GetRESTMapper(),
		Events:    env.Events,
		Clock:     env.Clock,
		Workers:   max(env.Concurrency, minWorkers),
	}))
}

// Start collects until ctx ends and returns when watches and workers have stopped.
func (c *Collector) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithName("garbagecollector")
	ctx = klog.NewContext(ctx, logger)
	defer c.stopAll()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer c.queue.ShutDown()
	for range c.workers {
		workers.Go(func() {
			for c.work(ctx) {
			}
		})
	}
	ticker := c.clock.NewTicker(syncPeriod)
	defer ticker.Stop()
	for {
		if err := c.sync(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, "Looking for new resources")
		}
		if !c.awaitSync(ctx, ticker.C()) {
			return nil
		}
	}
}

// awaitSync returns when it is time to look for new resources, or false when ctx ends.
func (c *Collector) awaitSync(ctx context.Context, tick <-chan time.Time) bool {
	var soon <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick:
			return true
		case <-soon:
			return true
		case <-c.defined:
			if soon == nil {
				soon = c.clock.After(syncDelay)
			}
		}
	}
}

func (c *Collector) enqueue(tasks []Task) {
	for _, task := range tasks {
		c.queue.Add(task)
	}
}

// work carries out one task; it returns false when the queue has been shut down.
func (c *Collector) work(ctx context.Context) bool {
	task, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(task)
	var err error
	if task.Orphan {
		err = c.orphan(ctx, task.UID)
	} else {
		err = c.attempt(ctx, task.UID)
	}
	logger := klog.FromContext(ctx).WithValues("uid", task.UID)
	switch {
	case err == nil:
		c.queue.Forget(task)
		return true
	case errors.Is(err, errUnresolvable):
		logger.V(2).Info("Leaving an object alone", "reason", err.Error())
		c.queue.Forget(task)
		return true
	case errors.Is(err, errUnobserved), errors.Is(err, errUnsettled), errors.Is(err, errNotServed), apierrors.IsConflict(err):
		logger.V(4).Info("Looking again later", "reason", err.Error())
	case ctx.Err() == nil:
		logger.Error(err, "Collecting an object")
	}
	c.queue.AddRateLimited(task)
	return true
}
