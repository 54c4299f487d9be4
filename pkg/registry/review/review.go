// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package review is what all reviews have in common: resources that answer a POST with the posted object and a filled-in
// status, and store nothing. Touch it when the protocol of all reviews changes.
package review

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// REST is the storage of one kind of review. T is a pointer to its type.
type REST[T runtime.Object] struct {
	// Singular is the kind in lower case.
	Singular   string
	Namespaced bool
	Empty      func() T
	// Validate refuses bad questions with an API status error; may be nil.
	Validate func(ctx context.Context, review T) error
	// Answer fills the status in.
	Answer func(ctx context.Context, review T) error
}

var (
	_ rest.Creater              = (*REST[runtime.Object])(nil)
	_ rest.Scoper               = (*REST[runtime.Object])(nil)
	_ rest.SingularNameProvider = (*REST[runtime.Object])(nil)
)

// New implements rest.Storage.
func (r *REST[T]) New() runtime.Object { return r.Empty() }

// Destroy implements rest.Storage.
func (r *REST[T]) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (r *REST[T]) NamespaceScoped() bool { return r.Namespaced }

// GetSingularName implements rest.SingularNameProvider.
func (r *REST[T]) GetSingularName() string { return r.Singular }

// Create implements rest.Creater.
func (r *REST[T]) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(T)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a %s: %T", r.Singular, obj))
	}
	if r.Validate != nil {
		if err := r.Validate(ctx, review); err != nil {
			return nil, err
		}
	}
	if validate != nil {
		if err := validate(ctx, review.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	if err := r.Answer(ctx, review); err != nil {
		return nil, err
	}
	return review, nil
}
