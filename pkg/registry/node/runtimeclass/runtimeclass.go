// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package runtimeclass serves RuntimeClasses: names for the programs that nodes run containers with, what they cost and
// where they are. Touch it when their rules change; the admission plugin RuntimeClass puts them into pods.
package runtimeclass

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/apis/core/toleration"
	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes runtimeclasses. The column of the handler has no description upstream.
var Resource = &registry.Resource[*nodev1.RuntimeClass]{
	Kind:                   nodev1.SchemeGroupVersion.WithKind("RuntimeClass"),
	Name:                   "runtimeclasses",
	ClusterScoped:          true,
	Metadata:               registry.GenericMetadata,
	New:                    func() *nodev1.RuntimeClass { return &nodev1.RuntimeClass{} },
	NewList:                func() runtime.Object { return &nodev1.RuntimeClassList{} },
	AllowCreateOnUpdate:    true,
	RequireResourceVersion: true,
	Validate:               validate,
	ValidateUpdate:         validateUpdate,
	Columns:                []metav1.TableColumnDefinition{registry.NameColumn, registry.Column("Handler", "string", ""), registry.AgeColumn},
	Row: func(c *nodev1.RuntimeClass) []any {
		return []any{c.Name, c.Handler, registry.Age(c.CreationTimestamp)}
	},
}

func validate(_ context.Context, c *nodev1.RuntimeClass) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("handler")
	if c.Handler == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		for _, msg := range apivalidation.NameIsDNSLabel(c.Handler, false) {
			errs = append(errs, field.Invalid(at, c.Handler, msg))
		}
	}
	if c.Overhead != nil {
		limits := &corev1.ResourceRequirements{Limits: c.Overhead.PodFixed}
		errs = append(errs, quantity.ValidateRequirements(limits, quantity.Container, nil, field.NewPath("overhead"))...)
	}
	if c.Scheduling != nil {
		errs = append(errs, validateScheduling(c.Scheduling, field.NewPath("scheduling"))...)
	}
	return errs
}

func validateScheduling(s *nodev1.Scheduling, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))
	at := path.Child("tolerations")
	errs = append(errs, toleration.Validate(s.Tolerations, at)...)
	seen := map[corev1.Toleration]bool{}
	for i, t := range s.Tolerations {
		key := t
		key.TolerationSeconds = nil
		if seen[key] {
			errs = append(errs, field.Duplicate(at.Index(i), t))
		}
		seen[key] = true
	}
	return errs
}

func validateUpdate(ctx context.Context, c, old *nodev1.RuntimeClass) field.ErrorList {
	errs := append(validate(ctx, c), apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	return append(errs, apivalidation.ValidateImmutableField(c.Handler, old.Handler, field.NewPath("handler"))...)
}
