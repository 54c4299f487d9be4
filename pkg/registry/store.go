// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Store is the REST storage of a stored resource.
type Store[T Object] struct {
	*genericregistry.Store
	resource *Resource[T]
}

var (
	_ rest.StandardStorage      = (*Store[Object])(nil)
	_ rest.ShortNamesProvider   = (*Store[Object])(nil)
	_ rest.CategoriesProvider   = (*Store[Object])(nil)
	_ rest.SingularNameProvider = (*Store[Object])(nil)
)

// ShortNames implements rest.ShortNamesProvider.
func (s *Store[T]) ShortNames() []string { return s.resource.ShortNames }

// Categories implements rest.CategoriesProvider.
func (s *Store[T]) Categories() []string { return s.resource.Categories }

// Delete implements rest.GracefulDeleter.
func (s *Store[T]) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	s.warnOnDelete(ctx, options)
	return s.Store.Delete(ctx, name, validate, options)
}

// DeleteCollection implements rest.CollectionDeleter.
func (s *Store[T]) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	s.warnOnDelete(ctx, options)
	return s.Store.DeleteCollection(ctx, validate, options, list)
}

func (s *Store[T]) warnOnDelete(ctx context.Context, options *metav1.DeleteOptions) {
	if s.resource.WarnOnDelete == nil {
		return
	}
	for _, text := range s.resource.WarnOnDelete(options) {
		warning.AddWarning(ctx, "", text)
	}
}

// Object fetches one object as its own type.
func (s *Store[T]) Object(ctx context.Context, name string, options *metav1.GetOptions) (T, error) {
	obj, err := s.Get(ctx, name, options)
	if err != nil {
		var none T
		return none, err
	}
	return obj.(T), nil
}

// StatusREST is the /status subresource of a Store.
type StatusREST[T Object] struct {
	store   *genericregistry.Store
	updater *genericregistry.Store
	table   rest.TableConvertor
}

var (
	_ rest.Patcher             = (*StatusREST[Object])(nil)
	_ rest.ResetFieldsStrategy = (*StatusREST[Object])(nil)
)

// New implements rest.Storage.
func (r *StatusREST[T]) New() runtime.Object { return r.store.New() }

// Destroy implements rest.Storage; the store is shared with the main resource, which destroys it.
func (r *StatusREST[T]) Destroy() {}

// Get implements rest.Getter.
func (r *StatusREST[T]) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update implements rest.Updater. It never creates.
func (r *StatusREST[T]) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.updater.Update(ctx, name, info, create, update, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (r *StatusREST[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.updater.GetResetFields()
}

// ConvertToTable implements rest.TableConvertor.
func (r *StatusREST[T]) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.table.ConvertToTable(ctx, obj, options)
}

// Info implements Descriptor.
func (r *Resource[T]) Info() Info {
	return Info{Kind: r.Kind, Name: r.Name, Namespaced: !r.ClusterScoped, Stored: true}
}

// AddToScheme implements Descriptor.
func (r *Resource[T]) AddToScheme(scheme *runtime.Scheme) error {
	if r.Default != nil {
		scheme.AddTypeDefaultingFunc(r.New(), func(obj any) { r.Default(obj.(T)) })
		scheme.AddTypeDefaultingFunc(r.NewList(), func(list any) { r.defaultList(list.(runtime.Object)) })
	}
	return r.addFieldLabels(scheme)
}

func (r *Resource[T]) defaultList(list runtime.Object) {
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return // not a list: nothing to default
	}
	v := reflect.ValueOf(items).Elem()
	for i := range v.Len() {
		if obj, ok := reflect.TypeAssert[T](v.Index(i).Addr()); ok {
			r.Default(obj)
		}
	}
}

// GroupResource names the resource.
func (r *Resource[T]) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Kind.Group, Resource: r.Name}
}

// Storage implements Descriptor.
func (r *Resource[T]) Storage(c Config) (map[string]rest.Storage, error) {
	s, err := r.store(c)
	if err != nil {
		return nil, fmt.Errorf("building storage of %s: %w", r.GroupResource(), err)
	}
	all := map[string]rest.Storage{r.Name: s}
	if r.Status != nil {
		updater := *s.Store
		st := statusStrategy[T]{r.strategy(c)}
		updater.UpdateStrategy, updater.ResetFieldsStrategy = st, st
		updater.BeginUpdate, updater.AfterUpdate = r.Status.BeginUpdate, nil
		all[r.Name+"/status"] = &StatusREST[T]{store: s.Store, updater: &updater, table: s.TableConvertor}
	}
	if r.Subresources == nil {
		return all, nil
	}
	subs, err := r.Subresources(s, c)
	if err != nil {
		return nil, fmt.Errorf("building subresources of %s: %w", r.GroupResource(), err)
	}
	for name, sub := range subs {
		all[r.Name+"/"+name] = sub
	}
	return all, nil
}

func (r *Resource[T]) strategy(c Config) strategy[T] {
	return strategy[T]{ObjectTyper: c.Scheme, NameGenerator: names.SimpleNameGenerator, scheme: c.Scheme, r: r, config: c}
}

func (r *Resource[T]) store(c Config) (*Store[T], error) {
	if made, err := c.Stores.Get(r.GroupResource()); err == nil {
		return &Store[T]{Store: made, resource: r}, nil // another version or group shows the same objects
	}
	singular := r.Singular
	if singular == "" {
		singular = strings.ToLower(r.Kind.Kind)
	}
	st := r.strategy(c)
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return r.New() },
		NewListFunc:               r.NewList,
		DefaultQualifiedResource:  r.GroupResource(),
		SingularQualifiedResource: schema.GroupResource{Group: r.Kind.Group, Resource: singular},
		PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: r.attrs, IndexFields: r.Indexed}
		},
		CreateStrategy:      st,
		UpdateStrategy:      st,
		DeleteStrategy:      st,
		ResetFieldsStrategy: st,
		ReturnDeletedObject: r.ReturnDeleted,
		TableConvertor:      r.table(),
	}
	if r.CheckGracefulDelete != nil {
		store.DeleteStrategy = gracefulStrategy[T]{st}
	}
	s := &Store[T]{Store: store, resource: r}
	err := store.CompleteWithOptions(&generic.StoreOptions{
		RESTOptions: c.RESTOptions,
		AttrFunc:    r.attrs,
		TriggerFunc: r.triggers(),
		Indexers:    r.indexers(),
	})
	if err != nil {
		return nil, err
	}
	if r.Configure != nil {
		if err := r.Configure(s, c); err != nil {
			return nil, err
		}
	}
	c.Stores.put(r.GroupResource(), store)
	return s, nil
}
