// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ownwrites lets no pass of a controller begin before the cache has what its earlier passes over the same object wrote:
// read-your-writes consistency, as upstream has it for four controllers (KEP-5647). Touch it when a controller decides on
// something older than its own last write, or is held back by a cache that has everything.
package ownwrites

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Client reads from a cache, writes to the API server, and notes each write for the pass (see Barrier) whose context it is done
// in. Outside of a pass it notes nothing. A read after a write in the same pass may lack it. Safe for concurrent use.
type Client struct {
	client.Client
	informers cache.Informers
	// indexers has what Peek reads for each type of list: a toolscache.Indexer, nil if the kind is cached in several parts.
	indexers sync.Map
}

// NewClient returns a client that notes what is written through c, which reads from the cache that informers belong to.
func NewClient(c client.Client, informers cache.Informers) *Client {
	return &Client{Client: c, informers: informers}
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

// Delete implements client.Client. It asks for no more than metadata in return. The answer does not tell the version that the
// deletion has, and one to a deletion at once has none, so it is the UID that the cache must not have any more.
func (c *Client) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	uid := obj.GetUID()
	if p := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions; p != nil && p.UID != nil {
		uid = *p.UID
	}
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: uid}}
	target.SetGroupVersionKind(gvk)
	err = c.Client.Delete(ctx, target, opts...)
	switch {
	case IsUncertain(err):
		note(ctx, lostWrite(gvk, target))
	case err == nil && uid != "":
		note(ctx, write{kind: gvk, key: client.ObjectKeyFromObject(obj), deleted: uid})
	}
	return err
}

// DeleteAllOf is refused: its answer does not tell what was deleted.
func (c *Client) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errors.New("ownwrites: DeleteAllOf is not supported")
}

// Apply is refused: the client's Apply cannot read an answer in protobuf, see setup.ApplyStatus.
func (c *Client) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errors.New("ownwrites: Apply is not supported")
}

// Status implements client.Client.
func (c *Client) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c *Client) SubResource(name string) client.SubResourceClient {
	return subResource{SubResourceClient: c.Client.SubResource(name), c: c, name: name}
}

// subResource notes writes as its client does.
type subResource struct {
	client.SubResourceClient
	c    *Client
	name string
}

// Create implements client.SubResourceClient. Of what can be created only an eviction changes the object.
func (s subResource) Create(ctx context.Context, obj, body client.Object, opts ...client.SubResourceCreateOption) error {
	err := s.SubResourceClient.Create(ctx, obj, body, opts...)
	if s.name != "eviction" {
		return err
	}
	gvk, gvkErr := apiutil.GVKForObject(obj, s.c.Scheme())
	switch {
	case gvkErr != nil:
		return errors.Join(err, gvkErr)
	case IsUncertain(err):
		note(ctx, lostWrite(gvk, obj))
	case err == nil && obj.GetUID() != "":
		note(ctx, write{kind: gvk, key: client.ObjectKeyFromObject(obj), deleted: obj.GetUID()})
	}
	return err
}

// Update implements client.SubResourceClient.
func (s subResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.c.write(ctx, obj, func() error { return s.SubResourceClient.Update(ctx, obj, opts...) })
}

// Patch implements client.SubResourceClient.
func (s subResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.c.write(ctx, obj, func() error { return s.SubResourceClient.Patch(ctx, obj, patch, opts...) })
}

// Apply is refused as that of Client is.
func (s subResource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errors.New("ownwrites: Apply is not supported")
}

// write does it and notes the version that obj has got by it. An answer that does not tell a version is as good as none.
func (c *Client) write(ctx context.Context, obj client.Object, do func() error) error {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	before := lostWrite(gvk, obj) // a part of an answer may overwrite it
	err = do()
	switch {
	case IsUncertain(err), err == nil && obj.GetResourceVersion() == "":
		note(ctx, before)
	case err == nil:
		note(ctx, write{kind: gvk, key: client.ObjectKeyFromObject(obj), version: obj.GetResourceVersion()})
	}
	return err
}

// Await lets the next pass for the request that ctx belongs to wait until the cache has obj, which was read past it.
func Await(ctx context.Context, c client.Client, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	note(ctx, write{kind: gvk, key: client.ObjectKeyFromObject(obj), version: obj.GetResourceVersion()})
	return nil
}

// IsUncertain reports whether a write that failed with err may have been done all the same: its answer was lost, came too late,
// or tells of a failure inside the server. What the server refuses (4xx) is not done.
func IsUncertain(err error) bool {
	if err == nil {
		return false
	}
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || status.Status().Code >= 500 || status.Status().Code == 0 || apierrors.IsTimeout(err)
}

// lostWrite is a write to obj of which nobody knows whether it was done.
func lostWrite(gvk schema.GroupVersionKind, obj client.Object) write {
	w := write{kind: gvk, key: client.ObjectKeyFromObject(obj), lost: &lost{uid: obj.GetUID(), labels: obj.GetLabels()}}
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		w.lost.controller = ref.UID
	}
	return w
}

// write is what the cache has to have before the next pass. One of version, deleted and lost is set.
type write struct {
	kind schema.GroupVersionKind
	key  types.NamespacedName // without a name if it was left to the API server to make one and lost
	// version is the resource version that the object got.
	version string
	// deleted is the UID that the object must not have any more, unless it is being deleted.
	deleted types.UID
	// lost says that there was no answer.
	lost *lost
}

// lost is what a write without an answer is looked for by: the name, if there was one, or the labels and the controller.
type lost struct {
	uid        types.UID // empty for what did not exist
	labels     map[string]string
	controller types.UID
}
