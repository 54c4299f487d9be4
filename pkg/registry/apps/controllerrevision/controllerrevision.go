// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllerrevision serves ControllerRevisions, frozen states that controllers can go back to. Touch it when
// their rules change.
package controllerrevision

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

var docs = appsv1.ControllerRevision{}.SwaggerDoc()

// Resource describes controllerrevisions.
var Resource = &registry.Resource[*appsv1.ControllerRevision]{
	Kind:           appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
	Name:           "controllerrevisions",
	New:            func() *appsv1.ControllerRevision { return &appsv1.ControllerRevision{} },
	NewList:        func() runtime.Object { return &appsv1.ControllerRevisionList{} },
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Controller", "string", "Controller of the object"),
		registry.Column("Revision", "string", docs["revision"]),
		registry.AgeColumn,
	},
	Row: func(r *appsv1.ControllerRevision) []any {
		return []any{r.Name, controller(r), r.Revision, registry.Age(r.CreationTimestamp)}
	},
}

func controller(r *appsv1.ControllerRevision) string {
	owner := metav1.GetControllerOf(r)
	if owner == nil {
		return "<none>"
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return "<none>"
	}
	kind := schema.GroupKind{Group: gv.Group, Kind: owner.Kind}
	return kind.String() + "/" + owner.Name
}

func validate(_ context.Context, r *appsv1.ControllerRevision) field.ErrorList {
	errs := apivalidation.ValidateNonnegativeField(r.Revision, field.NewPath("revision"))
	path := field.NewPath("data")
	var data any
	if r.Data.Raw == nil {
		return append(errs, field.Required(path, "data is mandatory"))
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return append(errs, field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data: %v", err)))
	}
	switch data.(type) {
	case map[string]any:
	case nil:
		errs = append(errs, field.Required(path, "data is mandatory"))
	default:
		errs = append(errs, field.Required(path, "data must be a valid JSON object"))
	}
	return errs
}

func validateUpdate(_ context.Context, r, old *appsv1.ControllerRevision) field.ErrorList {
	// Unlike others, upstream checks all metadata again.
	errs := apivalidation.ValidateObjectMeta(&r.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, apivalidation.ValidateNonnegativeField(r.Revision, field.NewPath("revision"))...)
	return append(errs, apivalidation.ValidateImmutableField(r.Data, old.Data, field.NewPath("data"))...)
}
