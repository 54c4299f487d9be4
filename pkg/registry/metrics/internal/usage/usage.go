// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package usage is the REST storage that resources of metrics.k8s.io share: it looks up objects of another resource, and tells what is
// known of them. Touch it for how they are looked up and selected; what is told of which is in the folders of the resources.
package usage

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// Kind describes figures M about objects O, which have the same name and namespace.
type Kind[O, M registry.Object] struct {
	Kind schema.GroupVersionKind
	// Objects is the resource of O; Figures is what messages call M.
	Objects, Figures schema.GroupResource
	Namespaced       bool
	// Empty makes an M, List a list of some.
	Empty func() M
	List  func(items []M) runtime.Object
	// Runs tells whether there can be figures about an object. Default: always.
	Runs func(o O) bool
	// Of is what is known of an object, false if that is nothing.
	Of func(u registry.Usage, o O) (M, bool)
	// Row returns one cell per column.
	Row func(m M) []any
}

// Resource describes the resource, which has the name of that of the objects.
func (k Kind[O, M]) Resource() registry.Virtual {
	return registry.Virtual{
		Kind: k.Kind, Name: k.Objects.Resource, Namespaced: k.Namespaced,
		Build: func(c registry.Config) (rest.Storage, error) {
			return &storage[O, M]{TableConvertor: registry.NewTable(columns, k.Row), kind: k, stores: c.Stores, usage: c.Usage}, nil
		},
	}
}

// columns are those of each of the resources.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"},
	{Name: "cpu", Type: "string", Format: "quantity"},
	{Name: "memory", Type: "string", Format: "quantity"},
	{Name: "Window", Type: "string", Format: "duration"},
}

type storage[O, M registry.Object] struct {
	rest.TableConvertor
	kind   Kind[O, M]
	stores *registry.Stores
	usage  registry.Usage
}

var (
	_ rest.Getter               = (*storage[registry.Object, registry.Object])(nil)
	_ rest.Lister               = (*storage[registry.Object, registry.Object])(nil)
	_ rest.Scoper               = (*storage[registry.Object, registry.Object])(nil)
	_ rest.SingularNameProvider = (*storage[registry.Object, registry.Object])(nil)
)

// New implements rest.Storage.
func (s *storage[O, M]) New() runtime.Object { return s.kind.Empty() }

// NewList implements rest.Lister.
func (s *storage[O, M]) NewList() runtime.Object { return s.kind.List(nil) }

// Destroy implements rest.Storage.
func (*storage[O, M]) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (s *storage[O, M]) NamespaceScoped() bool { return s.kind.Namespaced }

// GetSingularName implements rest.SingularNameProvider. There is none, so that "node" and "pod" are the core group's.
func (*storage[O, M]) GetSingularName() string { return "" }

// Get implements rest.Getter.
func (s *storage[O, M]) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	objects, err := s.stores.Get(s.kind.Objects)
	if err != nil {
		return nil, err
	}
	obj, err := objects.Get(ctx, name, &metav1.GetOptions{ResourceVersion: "0"})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err != nil || !s.runs(obj.(O)) {
		return nil, apierrors.NewNotFound(s.kind.Objects, name) // the store would name the resource of the request
	}
	s.usage.Measure(ctx)
	if m, ok := s.of(obj.(O)); ok {
		return m, nil
	}
	if s.kind.Namespaced {
		name = request.NamespaceValue(ctx) + "/" + name
	}
	return nil, apierrors.NewNotFound(s.kind.Figures, name)
}

// List implements rest.Lister.
func (s *storage[O, M]) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	objects, err := s.stores.Get(s.kind.Objects)
	if err != nil {
		return nil, err
	}
	selected := &internalversion.ListOptions{ResourceVersion: "0"}
	chosen := fields.Everything()
	if options != nil {
		selected.LabelSelector = options.LabelSelector
		if options.FieldSelector != nil {
			chosen = options.FieldSelector
		}
	}
	there, err := objects.List(ctx, selected)
	if err != nil {
		return nil, err
	}
	s.usage.Measure(ctx)
	items := []M{}
	err = meta.EachListItem(there, func(obj runtime.Object) error {
		o := obj.(O)
		if !s.runs(o) || !chosen.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}) {
			return nil
		}
		if m, ok := s.of(o); ok {
			items = append(items, m)
		}
		return nil
	})
	return s.kind.List(items), err
}

func (s *storage[O, M]) runs(o O) bool { return s.kind.Runs == nil || s.kind.Runs(o) }

func (s *storage[O, M]) of(o O) (M, bool) {
	m, ok := s.kind.Of(s.usage, o)
	if ok {
		m.SetLabels(o.GetLabels())
		m.SetCreationTimestamp(metav1.Now())
	}
	return m, ok
}
