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
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
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
	options := (&client.ListOptions{}).ApplyOptions(opts)
	k, err := c.observers.look(ctx, list, c.Scheme())
	if err != nil || k.indexer == nil {
		return nil, false, err
	}
	if !options.DisableReadYourWritesConsistency {
		if err := c.wait(ctx, k.kind, nil); err != nil {
			return nil, false, err
		}
	}
	objects, err := k.list(options)
	if err != nil {
		return nil, false, fmt.Errorf("listing %s: %w", k.kind.Kind, err)
	}
	found := make([]T, 0, len(objects))
	for _, obj := range objects {
		if o := obj.(T); options.LabelSelector == nil || options.LabelSelector.Matches(labels.Set(o.GetLabels())) {
			found = append(found, o)
		}
	}
	return found, true, nil
}

// indexed is the cache of a kind.
type indexed struct {
	kind    schema.GroupVersionKind
	indexer toolscache.Indexer // nil if the cache is made of several
}

// look returns the cache that a list of that type is made of.
func (o *Observers) look(ctx context.Context, list client.ObjectList, scheme *runtime.Scheme) (indexed, error) {
	if known, ok := o.indexers.Load(reflect.TypeOf(list)); ok {
		return known.(indexed), nil
	}
	gvk, err := apiutil.GVKForObject(list, scheme)
	if err != nil {
		return indexed{}, err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	informer, err := o.informers.GetInformerForKind(ctx, gvk)
	if err != nil {
		return indexed{}, fmt.Errorf("getting the informer of %s: %w", gvk.Kind, err)
	}
	k := indexed{kind: gvk}
	if shared, ok := informer.(toolscache.SharedIndexInformer); ok {
		k.indexer = shared.GetIndexer()
	}
	o.indexers.Store(reflect.TypeOf(list), k)
	return k, nil
}

// list returns the objects of a namespace, or of all, or those among them that have the value of one field. The names of indexes
// are those that controller-runtime gives.
func (k indexed) list(options *client.ListOptions) ([]any, error) {
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
		return k.indexer.ByIndex("field:"+requirements[0].Field, namespace+"/"+requirements[0].Value)
	case options.Namespace != "":
		return k.indexer.ByIndex(toolscache.NamespaceIndex, options.Namespace)
	}
	return k.indexer.List(), nil
}
