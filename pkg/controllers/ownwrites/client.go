// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ownwrites makes the reads of a client from a cache wait until the cache has what the client wrote before. Touch it
// when a controller decides on something older than its own last write, or waits for something that never comes.
// controller-runtime has the same (EnableReadYourWritesConsistency), which listens to each kind once a client, starts a goroutine
// an event, and makes JSON of the answer to each deletion.
package ownwrites

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Client reads from a cache, writes to the API server, and waits in between. The option DisableReadYourWritesConsistency is
// understood. Safe for concurrent use.
type Client struct {
	client.Client
	observers *Observers
	metadata  metadata.Interface

	mu sync.Mutex
	// writes has what a read of a kind has to wait for; it is guarded by mu.
	writes map[schema.GroupVersionKind]map[types.NamespacedName]write
}

// write is what the cache has to show of one object.
type write struct {
	// version is the least resource version of the kind that the cache has to have seen.
	version int64
	// deleted is the UID that the object must not have any more, unless it is being deleted.
	deleted types.UID
}

// NewClient returns a client that waits on top of c. It deletes with deletions, which asks for nothing but metadata in return.
func NewClient(c client.Client, deletions metadata.Interface, observers *Observers) *Client {
	return &Client{Client: c, observers: observers, metadata: deletions, writes: map[schema.GroupVersionKind]map[types.NamespacedName]write{}}
}

// Get implements client.Client.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if !(&client.GetOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency {
		gvk, err := apiutil.GVKForObject(obj, c.Scheme())
		if err != nil {
			return err
		}
		if err := c.wait(ctx, gvk, &key); err != nil {
			return err
		}
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

// List implements client.Client.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if !(&client.ListOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency {
		gvk, err := apiutil.GVKForObject(list, c.Scheme())
		if err != nil {
			return err
		}
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
		if err := c.wait(ctx, gvk, nil); err != nil {
			return err
		}
	}
	return c.Client.List(ctx, list, opts...)
}

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.write(ctx, obj, func() error { return c.Client.Create(ctx, obj, opts...) })
}

// Update implements client.Client.
func (c *Client) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.write(ctx, obj, func() error { return c.Client.Update(ctx, obj, opts...) })
}

// Patch implements client.Client.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.write(ctx, obj, func() error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

// Delete implements client.Client.
func (c *Client) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return fmt.Errorf("mapping %s: %w", gvk.Kind, err)
	}
	o, err := c.observers.observe(ctx, gvk, obj)
	if err != nil {
		return err
	}
	c.prune(ctx, gvk, o)
	err = c.metadata.Resource(mapping.Resource).Namespace(obj.GetNamespace()).Delete(ctx, obj.GetName(), *options.AsDeleteOptions())
	if err != nil {
		return err
	}
	uid := obj.GetUID()
	if p := options.Preconditions; p != nil && p.UID != nil {
		uid = *p.UID
	}
	if uid != "" {
		c.note(gvk, client.ObjectKeyFromObject(obj), write{deleted: uid})
	}
	return nil
}

// Status implements client.Client.
func (c *Client) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c *Client) SubResource(name string) client.SubResourceClient {
	return subResource{SubResourceClient: c.Client.SubResource(name), c: c}
}

// subResource waits as its client does. What is created (an eviction, a token) is not the object.
type subResource struct {
	client.SubResourceClient
	c *Client
}

// Update implements client.SubResourceClient.
func (s subResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.c.write(ctx, obj, func() error { return s.SubResourceClient.Update(ctx, obj, opts...) })
}

// Patch implements client.SubResourceClient.
func (s subResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.c.write(ctx, obj, func() error { return s.SubResourceClient.Patch(ctx, obj, patch, opts...) })
}

// Apply is refused: the client's Apply cannot read an answer in protobuf, see setup.ApplyStatus.
func (c *Client) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errors.New("ownwrites: Apply is not supported")
}

// write does it and notes the version that obj has got by it.
func (c *Client) write(ctx context.Context, obj client.Object, do func() error) error {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	o, err := c.observers.observe(ctx, gvk, obj)
	if err != nil {
		return err
	}
	c.prune(ctx, gvk, o)
	if err := do(); err != nil {
		return err
	}
	version, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return fmt.Errorf("parsing the resource version of %s %q: %w", gvk.Kind, obj.GetName(), err)
	}
	c.note(gvk, client.ObjectKeyFromObject(obj), write{version: version})
	return nil
}

// note lets reads wait for w.
func (c *Client) note(gvk schema.GroupVersionKind, key types.NamespacedName, w write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	writes := c.writes[gvk]
	if writes == nil {
		writes = map[types.NamespacedName]write{}
		c.writes[gvk] = writes
	}
	before := writes[key]
	if w.deleted == "" {
		w.deleted = before.deleted
	}
	w.version = max(w.version, before.version)
	writes[key] = w
}

// prune forgets what the cache has seen once there is much of it: some controllers write kinds that they never read.
func (c *Client) prune(ctx context.Context, gvk schema.GroupVersionKind, o *observer) {
	c.mu.Lock()
	writes := c.writes[gvk]
	if len(writes) < many {
		c.mu.Unlock()
		return
	}
	all := maps.Clone(writes)
	c.mu.Unlock()
	version, _ := o.seen()
	for key, w := range all {
		if w.version > version || w.deleted != "" && !c.isDeleted(ctx, gvk, key, w.deleted) {
			delete(all, key)
		}
	}
	c.forget(gvk, all)
}

// many writes are worth a look at which of them have been seen.
const many = 1000

// wait returns when the cache has what was written to the object of that key before, or to any of the kind if it is nil.
func (c *Client) wait(ctx context.Context, gvk schema.GroupVersionKind, key *types.NamespacedName) error {
	c.mu.Lock()
	var pending map[types.NamespacedName]write
	if key == nil {
		pending = maps.Clone(c.writes[gvk])
	} else if w, ok := c.writes[gvk][*key]; ok {
		pending = map[types.NamespacedName]write{*key: w}
	}
	c.mu.Unlock()
	if len(pending) == 0 {
		return nil
	}
	o := c.observers.observer(gvk)
	version := int64(0)
	for _, w := range pending {
		version = max(version, w.version)
	}
	if err := o.wait(ctx, func(seen int64) bool { return seen >= version }); err != nil {
		return fmt.Errorf("waiting for version %d of %s: %w", version, gvk.Kind, err)
	}
	for key, w := range pending {
		if w.deleted == "" {
			continue
		}
		if err := o.wait(ctx, func(int64) bool { return c.isDeleted(ctx, gvk, key, w.deleted) }); err != nil {
			return fmt.Errorf("waiting for the deletion of %s %q: %w", gvk.Kind, key, err)
		}
	}
	c.forget(gvk, pending)
	return nil
}

// isDeleted tells whether the cache has the object no more, or has it as one that is being deleted. An error is left to the read
// that waits for this.
func (c *Client) isDeleted(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, uid types.UID) bool {
	made, err := c.Scheme().New(gvk)
	if err != nil {
		return true
	}
	obj := made.(client.Object)
	err = c.Client.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	return err != nil || obj.GetUID() != uid || obj.GetDeletionTimestamp() != nil
}

// forget drops what was seen, unless something has been written since.
func (c *Client) forget(gvk schema.GroupVersionKind, seen map[types.NamespacedName]write) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, w := range seen {
		if c.writes[gvk][key] == w {
			delete(c.writes[gvk], key)
		}
	}
}
