// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package object keeps the config maps and secrets that pods of this node refer to, each watched on its own, because
// that is all a node may see of them; touch it to change how fresh they are.
package object

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
)

// syncTimeout is how long a reader waits for the first answer of the API server.
const syncTimeout = 3 * time.Second

// Cache holds objects as long as a registered pod refers to them. It is safe for concurrent use.
type Cache struct {
	client  kubernetes.Interface
	clock   clock.Clock
	changed func(types.UID)

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	pods  map[types.UID]map[Ref]bool
	items map[Ref]*item
}

// New returns an empty Cache. changed is told the pods that refer to an object which changed; it must not block.
func New(client kubernetes.Interface, c clock.Clock, changed func(types.UID)) *Cache {
	ctx, stop := context.WithCancel(context.Background())
	return &Cache{
		client: client, clock: c, changed: changed, ctx: ctx, stop: stop,
		pods: map[types.UID]map[Ref]bool{}, items: map[Ref]*item{},
	}
}

// Stop ends all watches and waits until they have.
func (c *Cache) Stop() {
	// With the lock, so that no watch begins after the waiting did.
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.running.Wait()
}

// Register starts to watch what the pod refers to and stops to watch what it no longer does. It is cheap to repeat.
func (c *Cache) Register(pod *corev1.Pod) { c.set(pod.UID, Refs(pod)) }

// Unregister forgets a pod.
func (c *Cache) Unregister(uid types.UID) { c.set(uid, nil) }

func (c *Cache) set(uid types.UID, refs map[Ref]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return
	}
	for ref := range refs {
		it := c.items[ref]
		if it == nil {
			it = c.watch(ref)
			c.items[ref] = it
		}
		it.pods[uid] = true
	}
	for ref := range c.pods[uid] {
		if refs[ref] {
			continue
		}
		it := c.items[ref]
		delete(it.pods, uid)
		if len(it.pods) == 0 {
			it.cancel()
			delete(c.items, ref)
		}
	}
	if len(refs) == 0 {
		delete(c.pods, uid)
		return
	}
	c.pods[uid] = refs
}

// notify tells the pods that refer to ref.
func (c *Cache) notify(ref Ref) {
	c.mu.Lock()
	var pods []types.UID
	if it := c.items[ref]; it != nil {
		for uid := range it.pods {
			pods = append(pods, uid)
		}
	}
	c.mu.Unlock()
	for _, uid := range pods {
		c.changed(uid)
	}
}

// ConfigMap implements plugin.Objects.
func (c *Cache) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	obj, err := c.get(ctx, Ref{ConfigMap, namespace, name})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.ConfigMap), nil
}

// Secret implements plugin.Objects.
func (c *Cache) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	obj, err := c.get(ctx, Ref{Secret, namespace, name})
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Secret), nil
}

func (c *Cache) get(ctx context.Context, ref Ref) (object, error) {
	c.mu.Lock()
	it := c.items[ref]
	c.mu.Unlock()
	if it == nil {
		return nil, fmt.Errorf("object %q/%q not registered", ref.Namespace, ref.Name)
	}
	timeout := c.clock.NewTimer(syncTimeout)
	defer timeout.Stop()
	select {
	case <-it.synced:
	case <-ctx.Done():
		return nil, fmt.Errorf("failed to sync %s cache: %w: %w", ref.Kind, plugin.ErrUnavailable, ctx.Err())
	case <-timeout.C():
		return nil, fmt.Errorf("failed to sync %s cache: timed out waiting for the condition: %w", ref.Kind, plugin.ErrUnavailable)
	}
	obj := it.load()
	if obj == nil {
		return nil, apierrors.NewNotFound(corev1.Resource(string(ref.Kind)), ref.Name)
	}
	return obj, nil
}
