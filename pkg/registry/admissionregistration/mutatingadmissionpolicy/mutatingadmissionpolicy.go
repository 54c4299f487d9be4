// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package mutatingadmissionpolicy serves MutatingAdmissionPolicies: expressions that change an object before it is stored.
// Touch it when their rules change; see policy for those of all admission policies.
package mutatingadmissionpolicy

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

// Resource describes mutatingadmissionpolicies.
var Resource = &registry.Resource[*admissionv1.MutatingAdmissionPolicy]{
	Kind:                   admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"),
	Name:                   "mutatingadmissionpolicies",
	Categories:             []string{"api-extensions"},
	ClusterScoped:          true,
	Metadata:               registry.GenericMetadata,
	New:                    func() *admissionv1.MutatingAdmissionPolicy { return &admissionv1.MutatingAdmissionPolicy{} },
	NewList:                func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyList{} },
	RequireResourceVersion: true,
	Default: func(p *admissionv1.MutatingAdmissionPolicy) {
		if p.Spec.FailurePolicy == nil {
			p.Spec.FailurePolicy = new(admissionv1.Fail)
		}
		policy.SetMatchDefaults(p.Spec.MatchConstraints)
	},
	Spec: func(p *admissionv1.MutatingAdmissionPolicy) any { return p.Spec },
	Validate: func(_ context.Context, p *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
		return append(validate(p, nil), manifestname.Validate(p.Name)...)
	},
	ValidateUpdate: func(_ context.Context, p, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
		return append(validate(p, old), validation.ValidateObjectMeta(&p.ObjectMeta, false, validation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	},
	Authorize: authorize,
	Warnings: func(_ context.Context, p, old *admissionv1.MutatingAdmissionPolicy) []string {
		if old == nil {
			return nil
		}
		return manifestname.Warnings(p.Name)
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Mutations", "integer", "Mutation indicates the number of mutations rules defined in this configuration"),
		registry.Column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy"),
		registry.AgeColumn,
	},
	Row: func(p *admissionv1.MutatingAdmissionPolicy) []any {
		return []any{p.Name, int64(len(p.Spec.Mutations)), policy.KindCell(p.Spec.ParamKind), registry.Age(p.CreationTimestamp)}
	},
}

// authorize is about policies that are well-formed otherwise: the kind has to be one.
func authorize(ctx context.Context, c registry.Config, p, old *admissionv1.MutatingAdmissionPolicy, found field.ErrorList) field.ErrorList {
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
