// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package lease serves Leases, by which leaders are elected and nodes show that they live. Touch it when the rules for
// leases change.
package lease

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes leases. An update must name the version it is based on, or two holders could both win.
var Resource = &registry.Resource[*coordinationv1.Lease]{
	Kind:                   coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	Name:                   "leases",
	New:                    func() *coordinationv1.Lease { return &coordinationv1.Lease{} },
	NewList:                func() runtime.Object { return &coordinationv1.LeaseList{} },
	AllowCreateOnUpdate:    true,
	RequireResourceVersion: true,
	Metadata:               registry.GenericMetadata,
	PrepareForCreate:       func(_ context.Context, l *coordinationv1.Lease) { l.Spec.Strategy, l.Spec.PreferredHolder = nil, nil },
	PrepareForUpdate:       prepareForUpdate,
	Validate:               validate,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Holder", "string", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]),
		registry.AgeColumn,
	},
	Row: func(l *coordinationv1.Lease) []any {
		holder := ""
		if l.Spec.HolderIdentity != nil {
			holder = *l.Spec.HolderIdentity
		}
		return []any{l.Name, holder, registry.Age(l.CreationTimestamp)}
	},
}

// prepareForUpdate drops the fields of coordinated leader election, which is off, unless they are there already.
func prepareForUpdate(_ context.Context, l, old *coordinationv1.Lease) {
	if old.Spec.Strategy == nil {
		l.Spec.Strategy = nil
	}
	if old.Spec.PreferredHolder == nil {
		l.Spec.PreferredHolder = nil
	}
}

func validate(_ context.Context, l *coordinationv1.Lease) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if s := l.Spec.LeaseDurationSeconds; s != nil && *s <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *s, "must be greater than 0"))
	}
	if n := l.Spec.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	if s := l.Spec.Strategy; s != nil {
		for _, msg := range validation.IsQualifiedName(string(*s)) {
			errs = append(errs, field.Invalid(path.Child("strategy"), *s, msg))
		}
	}
	if h := l.Spec.PreferredHolder; h != nil && *h != "" && (l.Spec.Strategy == nil || *l.Spec.Strategy == "") {
		errs = append(errs, field.Forbidden(path.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
	return errs
}
