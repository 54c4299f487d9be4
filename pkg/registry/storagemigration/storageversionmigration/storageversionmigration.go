// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package storageversionmigration serves StorageVersionMigrations: the wish to have all objects of a resource written anew in
// the version that is stored now. Touch it when their rules change.
package storageversionmigration

import (
	"context"
	"slices"
	"strings"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

const (
	running   = string(storagemigrationv1.MigrationRunning)
	succeeded = string(storagemigrationv1.MigrationSucceeded)
	failed    = string(storagemigrationv1.MigrationFailed)
)

// Resource describes storageversionmigrations.
var Resource = &registry.Resource[*storagemigrationv1.StorageVersionMigration]{
	Kind:          storagemigrationv1.SchemeGroupVersion.WithKind("StorageVersionMigration"),
	Name:          "storageversionmigrations",
	ClusterScoped: true,
	New: func() *storagemigrationv1.StorageVersionMigration {
		return &storagemigrationv1.StorageVersionMigration{}
	},
	NewList:                func() runtime.Object { return &storagemigrationv1.StorageVersionMigrationList{} },
	RequireResourceVersion: true,
	Validate:               validate,
	ValidateUpdate:         validateUpdate,
	Status: &registry.Status[*storagemigrationv1.StorageVersionMigration]{
		KeepMetadata: true,
		Validate:     validateStatus,
	},
	Columns: []metav1.TableColumnDefinition{
		registry.Column("Name", "string", metav1.ObjectMeta{}.SwaggerDoc()["name"]),
		registry.Column("Resource", "string", "GroupResource to migrate"),
		registry.Column("Status", "string", "Status of the migration"),
	},
	Row: row,
}

func row(m *storagemigrationv1.StorageVersionMigration) []any {
	state := "Unknown"
	for _, c := range m.Status.Conditions {
		if c.Status == metav1.ConditionTrue && slices.Contains([]string{running, succeeded, failed}, c.Type) {
			state = c.Type
		}
	}
	return []any{m.Name, m.Spec.Resource.String(), state}
}

func validate(_ context.Context, m *storagemigrationv1.StorageVersionMigration) field.ErrorList {
	path, r := field.NewPath("spec", "resource"), m.Spec.Resource
	var errs field.ErrorList
	if r.Resource == "" {
		errs = append(errs, field.Required(path.Child("resource"), "resource is required to be set"))
	} else if msgs := validation.IsDNS1035Label(r.Resource); len(msgs) > 0 {
		errs = append(errs, field.Invalid(path.Child("resource"), r.Resource, strings.Join(msgs, ",")))
	}
	if msgs := validation.IsDNS1123Subdomain(r.Group); r.Group != "" && len(msgs) > 0 {
		errs = append(errs, field.Invalid(path.Child("group"), r.Group, strings.Join(msgs, ",")))
	}
	return errs
}

func validateUpdate(ctx context.Context, m, old *storagemigrationv1.StorageVersionMigration) field.ErrorList {
	errs := append(validate(ctx, m), registry.ValidateMetadata(m, false, apivalidation.NameIsDNSSubdomain)...)
	return append(errs, apivalidation.ValidateImmutableField(m.Spec, old.Spec, field.NewPath("spec"))...)
}

// validateStatus keeps how a migration ended.
func validateStatus(_ context.Context, m, old *storagemigrationv1.StorageVersionMigration) field.ErrorList {
	path := field.NewPath("status")
	version, conditions := path.Child("resourceVersion"), path.Child("conditions")
	now, before := &m.Status, &old.Status
	var errs field.ErrorList
	if v := now.ResourceVersion; v != "" {
		if _, err := resourceversion.CompareResourceVersion(v, v); err != nil {
			errs = append(errs, field.Invalid(version, v, err.Error()))
		}
	}
	errs = append(errs, metav1validation.ValidateConditions(now.Conditions, conditions)...)
	if before.ResourceVersion != "" && before.ResourceVersion != now.ResourceVersion {
		errs = append(errs, field.Invalid(version, now.ResourceVersion, apivalidation.FieldImmutableErrorMsg))
	}
	done, broken := meta.IsStatusConditionTrue(now.Conditions, succeeded), meta.IsStatusConditionTrue(now.Conditions, failed)
	if done && broken {
		errs = append(errs, field.Invalid(conditions, now.Conditions, "Both success and failed conditions cannot be true at the same time"))
	}
	if !done && meta.IsStatusConditionTrue(before.Conditions, succeeded) {
		errs = append(errs, field.Invalid(conditions, now.Conditions, "Success condition cannot be set to false once it is true"))
	}
	if !broken && meta.IsStatusConditionTrue(before.Conditions, failed) {
		errs = append(errs, field.Invalid(conditions, now.Conditions, "Failed condition cannot be set to false once it is true"))
	}
	return errs
}
