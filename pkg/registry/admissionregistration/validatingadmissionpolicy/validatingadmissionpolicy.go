// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package validatingadmissionpolicy serves ValidatingAdmissionPolicies: expressions that a request has to fulfil. Touch it
// when their rules change; see policy for those of all admission policies.
package validatingadmissionpolicy

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/manifestname"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/policy"
)

// Resource describes validatingadmissionpolicies.
var Resource = &registry.Resource[*admissionv1.ValidatingAdmissionPolicy]{
	Kind:                   admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
	Name:                   "validatingadmissionpolicies",
	Categories:             []string{"api-extensions"},
	ClusterScoped:          true,
	Metadata:               registry.GenericMetadata,
	New:                    func() *admissionv1.ValidatingAdmissionPolicy { return &admissionv1.ValidatingAdmissionPolicy{} },
	NewList:                func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyList{} },
	RequireResourceVersion: true,
	Default:                setDefaults,
	Spec:                   func(p *admissionv1.ValidatingAdmissionPolicy) any { return p.Spec },
	Validate: func(_ context.Context, p *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
		return append(validate(p, nil), manifestname.Validate(p.Name)...)
	},
	ValidateUpdate: func(_ context.Context, p, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
		return append(validate(p, old), validation.ValidateObjectMeta(&p.ObjectMeta, false, validation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	},
	Authorize: authorize,
	Warnings: func(_ context.Context, p, old *admissionv1.ValidatingAdmissionPolicy) []string {
		if old == nil {
			return nil
		}
		return manifestname.Warnings(p.Name)
	},
	Status: &registry.Status[*admissionv1.ValidatingAdmissionPolicy]{
		KeepMetadata: true,
		Validate:     validateStatus,
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Validations", "integer", "Validations indicates the number of validation rules defined in this configuration"),
		registry.Column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy"),
		registry.AgeColumn,
	},
	Row: func(p *admissionv1.ValidatingAdmissionPolicy) []any {
		return []any{p.Name, int64(len(p.Spec.Validations)), policy.KindCell(p.Spec.ParamKind), registry.Age(p.CreationTimestamp)}
	},
}

func setDefaults(p *admissionv1.ValidatingAdmissionPolicy) {
	if p.Spec.FailurePolicy == nil {
		p.Spec.FailurePolicy = new(admissionv1.Fail)
	}
	policy.SetMatchDefaults(p.Spec.MatchConstraints)
}

// authorize is about policies that are well-formed otherwise: the kind has to be one.
func authorize(ctx context.Context, c registry.Config, p, old *admissionv1.ValidatingAdmissionPolicy, found field.ErrorList) field.ErrorList {
	if len(found) > 0 {
		return nil
	}
	var before *admissionv1.ParamKind
	if old != nil {
		before = old.Spec.ParamKind
	}
	if err := policy.AuthorizeKind(ctx, c, p.Spec.ParamKind, before); err != nil {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "paramKind"), err.Error())}
	}
	return nil
}
