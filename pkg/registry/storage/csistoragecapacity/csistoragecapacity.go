// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package csistoragecapacity serves CSIStorageCapacities: how much a driver can still make of a storage class, and where.
// Touch it when their rules change.
package csistoragecapacity

import (
	"context"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/nodelabel"
	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/registry"
)

// createdAt is what upstream prints of kinds that its printer does not know, this one among them.
var createdAt = registry.Column("Created At", "date", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])

// Resource describes csistoragecapacities.
var Resource = &registry.Resource[*storagev1.CSIStorageCapacity]{
	Kind:                   storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"),
	Name:                   "csistoragecapacities",
	New:                    func() *storagev1.CSIStorageCapacity { return &storagev1.CSIStorageCapacity{} },
	NewList:                func() runtime.Object { return &storagev1.CSIStorageCapacityList{} },
	RequireResourceVersion: true,
	Validate: func(_ context.Context, c *storagev1.CSIStorageCapacity) field.ErrorList {
		return validate(c, metav1validation.LabelSelectorValidationOptions{})
	},
	ValidateUpdate: validateUpdate,
	Warnings: func(_ context.Context, c, _ *storagev1.CSIStorageCapacity) []string {
		return nodelabel.SelectorWarnings(c.NodeTopology, field.NewPath("nodeTopology"))
	},
	Columns: []metav1.TableColumnDefinition{registry.NameColumn, createdAt},
	Row: func(c *storagev1.CSIStorageCapacity) []any {
		return []any{c.Name, c.CreationTimestamp.UTC().Format(time.RFC3339)}
	},
}

func validate(c *storagev1.CSIStorageCapacity, opts metav1validation.LabelSelectorValidationOptions) field.ErrorList {
	errs := metav1validation.ValidateLabelSelector(c.NodeTopology, opts, field.NewPath("nodeTopology"))
	errs = append(errs, persistentvolumeclaim.ValidateClassName(c.StorageClassName, field.NewPath("storageClassName"))...)
	if c.Capacity != nil {
		errs = append(errs, quantity.ValidateNonNegative(*c.Capacity, field.NewPath("capacity"))...)
	}
	return errs
}

// validateUpdate keeps what the driver was asked; only its answer changes.
func validateUpdate(_ context.Context, c, old *storagev1.CSIStorageCapacity) field.ErrorList {
	strict := metav1validation.LabelSelectorValidationOptions{}
	was := metav1validation.ValidateLabelSelector(old.NodeTopology, strict, nil)
	errs := validate(c, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: len(was) > 0})
	errs = append(errs, registry.ValidateMetadata(c, true, apivalidation.NameIsDNSSubdomain)...)
	if !apiequality.Semantic.DeepEqual(c.NodeTopology, old.NodeTopology) {
		errs = append(errs, field.Invalid(field.NewPath("nodeTopology"), c.NodeTopology, apivalidation.FieldImmutableErrorMsg))
	}
	if c.StorageClassName != old.StorageClassName {
		errs = append(errs, field.Invalid(field.NewPath("storageClassName"), c.StorageClassName, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}
