// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package volumeattributesclass serves VolumeAttributesClasses: attributes of volumes that claims can ask for and change
// while they are in use. Touch it when their rules change.
package volumeattributesclass

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/storage/parameters"
)

var docs = storagev1.VolumeAttributesClass{}.SwaggerDoc()

// Resource describes volumeattributesclasses.
var Resource = &registry.Resource[*storagev1.VolumeAttributesClass]{
	Kind:           storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"),
	Name:           "volumeattributesclasses",
	ShortNames:     []string{"vac"},
	ClusterScoped:  true,
	New:            func() *storagev1.VolumeAttributesClass { return &storagev1.VolumeAttributesClass{} },
	NewList:        func() runtime.Object { return &storagev1.VolumeAttributesClassList{} },
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	ReturnDeleted:  true,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("DriverName", "string", docs["driverName"]),
		registry.AgeColumn,
	},
	Row: func(c *storagev1.VolumeAttributesClass) []any {
		return []any{c.Name, c.DriverName, registry.Age(c.CreationTimestamp)}
	},
}

func validate(_ context.Context, c *storagev1.VolumeAttributesClass) field.ErrorList {
	errs := parameters.ValidateDriver(c.DriverName, field.NewPath("driverName"))
	path := field.NewPath("parameters")
	errs = append(errs, parameters.Validate(c.Parameters, path)...)
	if len(c.Parameters) == 0 {
		errs = append(errs, field.Required(path, "must contain at least one key/value pair"))
	}
	return errs
}

func validateUpdate(ctx context.Context, c, old *storagev1.VolumeAttributesClass) field.ErrorList {
	errs := registry.ValidateMetadata(c, false, apivalidation.NameIsDNSSubdomain)
	if c.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	if !apiequality.Semantic.DeepEqual(c.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	return append(errs, validate(ctx, c)...)
}
