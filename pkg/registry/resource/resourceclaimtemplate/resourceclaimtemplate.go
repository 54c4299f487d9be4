// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resourceclaimtemplate serves ResourceClaimTemplates, from which every pod gets a claim of its own. Touch it when
// their rules change; what claims and templates share is in claim.
package resourceclaimtemplate

import (
	"context"
	"reflect"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/resource/claim"
)

// Resource describes resourceclaimtemplates.
var Resource = &registry.Resource[*resourcev1.ResourceClaimTemplate]{
	Kind:          resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"),
	Name:          "resourceclaimtemplates",
	New:           func() *resourcev1.ResourceClaimTemplate { return &resourcev1.ResourceClaimTemplate{} },
	NewList:       func() runtime.Object { return &resourcev1.ResourceClaimTemplateList{} },
	ReturnDeleted: true,
	Default:       func(t *resourcev1.ResourceClaimTemplate) { claim.SetDefaults(&t.Spec.Spec) },
	PrepareForCreate: func(_ context.Context, t *resourcev1.ResourceClaimTemplate) {
		claim.DropDisabled(&t.Spec.Spec)
	},
	PrepareForUpdate: func(_ context.Context, t, _ *resourcev1.ResourceClaimTemplate) {
		claim.DropDisabled(&t.Spec.Spec)
	},
	Validate: func(_ context.Context, t *resourcev1.ResourceClaimTemplate) field.ErrorList { return validate(t) },
	ValidateUpdate: func(_ context.Context, t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
		errs := append(validate(t), validation.ValidateObjectMeta(&t.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
		return append(errs, validation.ValidateImmutableField(t.Spec, old.Spec, field.NewPath("spec"))...)
	},
	Authorize: func(ctx context.Context, c registry.Config, t, old *resourcev1.ResourceClaimTemplate, _ field.ErrorList) field.ErrorList {
		if old != nil { // the spec is as it was
			return nil
		}
		return claim.AuthorizeAdmin(ctx, c, t.Namespace, &t.Spec.Spec)
	},
}

func validate(t *resourcev1.ResourceClaimTemplate) field.ErrorList {
	path := field.NewPath("spec")
	return append(validateMeta(t.Spec.ObjectMeta, path.Child("metadata")), claim.Validate(&t.Spec.Spec, path.Child("spec"))...)
}

// validateMeta lets a template give its claims labels and annotations, nothing else.
func validateMeta(m metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := validation.ValidateAnnotations(m.Annotations, path.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(m.Labels, path.Child("labels"))...)
	m.Labels, m.Annotations = nil, nil
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			name := v.Type().Field(i).Name // and not its JSON name: clients know "uID"
			errs = append(errs, field.Forbidden(path.Child(strings.ToLower(name[:1])+name[1:]), "cannot be set"))
		}
	}
	return errs
}
