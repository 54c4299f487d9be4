// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package namespace serves Namespaces. They differ from all other resources in how they end: a delete only marks one as
// Terminating, the namespace controller empties it and then removes itself from spec.finalizers by the finalize
// subresource, and a second delete (or that last write) removes it. Touch it when these rules change.
package namespace

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes namespaces.
var Resource registry.Descriptor = descriptor{stored}

// descriptor is the stored resource with a delete of its own.
type descriptor struct {
	*registry.Resource[*corev1.Namespace]
}

// Storage implements registry.Descriptor.
func (d descriptor) Storage(c registry.Config) (map[string]rest.Storage, error) {
	all, err := d.Resource.Storage(c)
	if err != nil {
		return nil, err
	}
	s := all[d.Name].(*registry.Store[*corev1.Namespace])
	all[d.Name] = &REST{plain: s, store: s}
	return all, nil
}

var stored = &registry.Resource[*corev1.Namespace]{
	Kind:          corev1.SchemeGroupVersion.WithKind("Namespace"),
	Name:          "namespaces",
	ShortNames:    []string{"ns"},
	ClusterScoped: true,
	New:           func() *corev1.Namespace { return &corev1.Namespace{} },
	NewList:       func() runtime.Object { return &corev1.NamespaceList{} },
	ReturnDeleted: true,

	Default: func(n *corev1.Namespace) {
		setNameLabel(n)
		if n.Status.Phase == "" {
			n.Status.Phase = corev1.NamespaceActive
		}
	},
	ValidateName: apivalidation.NameIsDNSLabel,
	PrepareForCreate: func(_ context.Context, n *corev1.Namespace) {
		n.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
		if !slices.Contains(n.Spec.Finalizers, corev1.FinalizerKubernetes) {
			n.Spec.Finalizers = append(n.Spec.Finalizers, corev1.FinalizerKubernetes)
		}
	},
	// spec.finalizers is written by the finalize subresource only.
	PrepareForUpdate: func(_ context.Context, n, old *corev1.Namespace) { n.Spec = old.Spec },
	Canonicalize:     setNameLabel,
	WholeUpdate:      true,
	Validate:         validate,
	ValidateUpdate:   func(context.Context, *corev1.Namespace, *corev1.Namespace) field.ErrorList { return nil },
	Status:           &registry.Status[*corev1.Namespace]{Validate: validateStatus},

	// "name" is an old spelling that upstream keeps.
	Fields: registry.Fields[*corev1.Namespace]{
		"status.phase": func(n *corev1.Namespace) string { return string(n.Status.Phase) },
		"name":         func(n *corev1.Namespace) string { return n.Name },
	},

	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Status", "string", "The status of the namespace"),
		registry.AgeColumn,
	},
	Row: func(n *corev1.Namespace) []any {
		return []any{n.Name, string(n.Status.Phase), registry.Age(n.CreationTimestamp)}
	},

	Configure: func(s *registry.Store[*corev1.Namespace], _ registry.Config) error {
		s.ShouldDeleteDuringUpdate = deleteDuringUpdate
		return nil
	},
	Subresources: func(s *registry.Store[*corev1.Namespace], _ registry.Config) (map[string]rest.Storage, error) {
		return map[string]rest.Storage{"finalize": newFinalizeREST(s)}, nil
	},
}

// setNameLabel lets selectors pick a namespace by its name (KEP-2161).
func setNameLabel(n *corev1.Namespace) {
	if n.Name == "" {
		return
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
}

// deleteDuringUpdate tells whether a write completes the deletion: both kinds of finalizers must be gone.
func deleteDuringUpdate(ctx context.Context, key string, obj, existing runtime.Object) bool {
	n, ok := obj.(*corev1.Namespace)
	return ok && len(n.Spec.Finalizers) == 0 && genericregistry.ShouldDeleteDuringUpdate(ctx, key, obj, existing)
}
