// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Resource is a resource whose objects are collected.
type Resource struct {
	schema.GroupVersionResource
	Kind string
}

// ignored are resources whose objects never own nor are owned, and of which there are many.
var ignored = map[schema.GroupResource]bool{
	{Group: "", Resource: "events"}:              true,
	{Group: "events.k8s.io", Resource: "events"}: true,
}

// collectable picks the resources whose objects can be deleted, listed and watched.
func collectable(lists []*metav1.APIResourceList) []Resource {
	var found []Resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			able := slices.Contains(r.Verbs, "delete") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
			if able && !strings.Contains(r.Name, "/") && !ignored[gv.WithResource(r.Name).GroupResource()] {
				found = append(found, Resource{GroupVersionResource: gv.WithResource(r.Name), Kind: r.Kind})
			}
		}
	}
	return found
}

// monitor watches the metadata of one resource and tells the graph. It keeps no objects itself.
type monitor struct {
	resource Resource
	started  time.Time
	// stop ends the watch; hasSynced, unless it is nil, tells in place of synced.
	stop      func()
	hasSynced func() bool
	// synced is closed when the first complete list has reached the graph.
	synced     chan struct{}
	syncedOnce sync.Once
	graph      *Graph
	enqueue    func([]Task)
	// observed is called after each change of an object, deleted with an object that is gone, and its namespace, while others depend on it.
	observed func(Resource)
	deleted  func(uid types.UID, namespace string)
}

// newMonitor returns a monitor that does not watch yet.
func (c *Collector) newMonitor(resource Resource) *monitor {
	return &monitor{
		resource: resource,
		started:  c.clock.Now(),
		synced:   make(chan struct{}),
		graph:    c.graph,
		enqueue:  c.enqueue,
		observed: c.observe,
		deleted:  func(uid types.UID, namespace string) { c.absent.Add(uid, namespace) },
	}
}

// definitions are the resources that lead to other resources.
var definitions = map[schema.GroupResource]bool{
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: true,
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:             true,
}

// observe lets new resources be looked for after a change of a definition.
func (c *Collector) observe(resource Resource) {
	if !definitions[resource.GroupResource()] {
		return
	}
	select {
	case c.defined <- struct{}{}:
	default:
	}
}

// watch watches the resource until ctx ends or stop is called, which waits for the end.
func (m *monitor) watch(ctx context.Context, client metadata.Interface) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	m.stop = func() {
		cancel()
		<-done
	}
	resource := m.resource
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(resource.GroupVersionResource).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Resource(resource.GroupVersionResource).Watch(ctx, options)
		},
	}, client)
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "resource", resource.GroupVersionResource)
	reflector := cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, m, cache.ReflectorOptions{
		Logger: &logger,
		Name:   "garbagecollector",
	})
	go func() {
		defer close(done)
		reflector.RunWithContext(ctx)
	}()
}

func (m *monitor) isSynced() bool {
	if m.hasSynced != nil {
		return m.hasSynced()
	}
	select {
	case <-m.synced:
		return true
	default:
		return false
	}
}

// Add, Update, Delete, Replace and Resync receive what the reflector sees.

// Add takes in an object.
func (m *monitor) Add(obj any) error { return m.Update(obj) }

// Update takes in an object.
func (m *monitor) Update(obj any) error {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("observing %v: %w", m.resource, err)
	}
	m.enqueue(m.graph.Observe(m.resource, accessor))
	m.observed(m.resource)
	return nil
}

// Delete takes in that an object is gone.
func (m *monitor) Delete(obj any) error {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("forgetting %v: %w", m.resource, err)
	}
	tasks := m.graph.Forget(accessor.GetUID())
	if len(tasks) > 0 {
		m.deleted(accessor.GetUID(), accessor.GetNamespace())
	}
	m.enqueue(tasks)
	m.observed(m.resource)
	return nil
}

// Replace takes in a complete list.
func (m *monitor) Replace(objects []any, _ string) error {
	present := make(map[types.UID]struct{}, len(objects))
	var errs []error
	for _, obj := range objects {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		present[accessor.GetUID()] = struct{}{}
		m.enqueue(m.graph.Observe(m.resource, accessor))
	}
	m.enqueue(m.graph.Retain(m.resource, present))
	m.syncedOnce.Do(func() { close(m.synced) })
	return errors.Join(errs...)
}

// Resync has nothing to do: the graph is always complete.
func (m *monitor) Resync() error { return nil }

// monitors is the set of running monitors.
type monitors struct {
	mu sync.Mutex
	// running is guarded by mu.
	running map[schema.GroupVersionResource]*monitor
}

// sync asks the API server for its resources, starts the monitors that are missing and stops those of resources that are
// no more. While the discovery of a group fails, the monitors of that group stay.
func (c *Collector) sync(ctx context.Context) error {
	lists, err := discovery.ServerPreferredResourcesWithContext(ctx, c.discovery)
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return fmt.Errorf("discovering resources: %w", err)
	}
	wanted := map[schema.GroupVersionResource]Resource{}
	for _, resource := range collectable(lists) {
		wanted[resource.GroupVersionResource] = resource
	}
	if len(wanted) == 0 {
		return errors.New("discovery found no resource to watch")
	}
	failedGroups := map[string]bool{}
	for gv := range failed {
		failedGroups[gv.Group] = true
	}
	kinds := sharedKinds()
	var stopped []*monitor
	c.monitors.mu.Lock()
	for gvr, m := range c.monitors.running {
		if _, ok := wanted[gvr]; !ok && !failedGroups[gvr.Group] {
			delete(c.monitors.running, gvr)
			stopped = append(stopped, m)
		}
	}
	for gvr, resource := range wanted {
		if c.monitors.running[gvr] == nil {
			m := c.newMonitor(resource)
			if c.shared == nil || !kinds[schema.GroupKind{Group: gvr.Group, Kind: resource.Kind}] {
				m.watch(ctx, c.metadata)
			} else if listenErr := m.listen(ctx, c.shared); listenErr != nil {
				err = errors.Join(err, listenErr)
				continue
			}
			c.monitors.running[gvr] = m
		}
	}
	c.monitors.mu.Unlock()
	for _, m := range stopped {
		m.stop()
		c.enqueue(c.graph.Retain(m.resource, nil))
	}
	return err
}

// settled reports whether the graph knows all dependents: every monitor is synced. One that cannot get there in time (a
// custom resource whose conversion fails, for example) does not stop the collection of all others.
func (c *Collector) settled() bool {
	c.monitors.mu.Lock()
	defer c.monitors.mu.Unlock()
	for _, m := range c.monitors.running {
		if !m.isSynced() && c.clock.Since(m.started) < syncTimeout {
			return false
		}
	}
	return len(c.monitors.running) > 0
}

// stopAll stops all monitors and waits for them.
func (c *Collector) stopAll() {
	c.monitors.mu.Lock()
	running := c.monitors.running
	c.monitors.running = map[schema.GroupVersionResource]*monitor{}
	c.monitors.mu.Unlock()
	for _, m := range running {
		m.stop()
	}
}
