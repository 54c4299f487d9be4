// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Peek returns what reader.List would put into list. The objects are those in the cache, which nobody may change. A list has
// a copy of each, though a shallow one: a kilobyte for a pod, and there may be thousands. Readers other than Client make it.
func Peek[T client.Object](ctx context.Context, reader client.Reader, list client.ObjectList, opts ...client.ListOption) ([]T, error) {
	var found []T
	if c, ok := reader.(*Client); ok {
		if found, ok, err := peek[T](ctx, c, list, opts); ok || err != nil {
			return found, err
		}
	}
	if err := reader.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, err
	}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		found = append(found, item.(T))
		return nil
	})
	return found, err
}

// peek does it if the cache of the kind is one that can be looked into.
func peek[T client.Object](ctx context.Context, c *Client, list client.ObjectList, opts []client.ListOption) ([]T, bool, error) {
	indexer, err := c.indexer(ctx, list)
	if err != nil || indexer == nil {
		return nil, false, err
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	objects, err := listFrom(indexer, options)
	if err != nil {
		return nil, false, fmt.Errorf("listing %T: %w", list, err)
	}
	found := make([]T, 0, len(objects))
	for _, obj := range objects {
		if o := obj.(T); options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set(o.GetLabels())) {
			found = append(found, o)
		}
	}
	return found, true, nil
}

// indexer returns the cache that a list of that type is made of, nil if it is made of several.
func (c *Client) indexer(ctx context.Context, list client.ObjectList) (toolscache.Indexer, error) {
	if known, ok := c.indexers.Load(reflect.TypeOf(list)); ok {
		indexer, _ := known.(toolscache.Indexer)
		return indexer, nil
	}
	gvk, err := apiutil.GVKForObject(list, c.Scheme())
	if err != nil {
		return nil, err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	informer, err := c.informers.GetInformerForKind(ctx, gvk)
	if err != nil {
		return nil, fmt.Errorf("getting the informer of %s: %w", gvk.Kind, err)
	}
	var indexer toolscache.Indexer
	if shared, ok := informer.(toolscache.SharedIndexInformer); ok {
		indexer = shared.GetIndexer()
	}
	c.indexers.Store(reflect.TypeOf(list), indexer)
	return indexer, nil
}

// listFrom returns the objects of a namespace, or of all, or those among them that have the value of one field. The names of indexes
// are those that controller-runtime gives.
func listFrom(indexer toolscache.Indexer, options *client.ListOptions) ([]any, error) {
	switch {
	case options.FieldSelector != nil:
		requirements := options.FieldSelector.Requirements()
		if len(requirements) != 1 {
			return nil, fmt.Errorf("field selector %q is not one field", options.FieldSelector)
		}
		namespace := options.Namespace
		if namespace == "" {
			namespace = "__all_namespaces"
		}
		return indexer.ByIndex("field:"+requirements[0].Field, namespace+"/"+requirements[0].Value)
	case options.Namespace != "":
		return indexer.ByIndex(toolscache.NamespaceIndex, options.Namespace)
	}
	return indexer.List(), nil
}

// EnqueueFor returns a request for each object of a list that an event concerns, in the cache as it is. An error is logged, and
// then there are none.
func EnqueueFor[T client.Object](ctx context.Context, reader client.Reader, list client.ObjectList, concerned func(T) bool, opts ...client.ListOption) []reconcile.Request {
	objects, err := Peek[T](ctx, reader, list, opts...)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing what an event may concern")
		return nil
	}
	var requests []reconcile.Request
	for _, o := range objects {
		if concerned(o) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		}
	}
	return requests
}
