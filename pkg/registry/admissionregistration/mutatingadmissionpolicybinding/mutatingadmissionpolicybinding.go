// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package mutatingadmissionpolicybinding serves MutatingAdmissionPolicyBindings: where a policy applies, and with which
// parameters. Touch it when their rules change; see policy for those of all admission policies.
package mutatingadmissionpolicybinding

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

// Resource describes mutatingadmissionpolicybindings.
var Resource = &registry.Resource[*admissionv1.MutatingAdmissionPolicyBinding]{
	Kind:          admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"),
	Name:          "mutatingadmissionpolicybindings",
	Categories:    []string{"api-extensions"},
	ClusterScoped: true,
	Metadata:      registry.GenericMetadata,
	New: func() *admissionv1.MutatingAdmissionPolicyBinding {
		return &admissionv1.MutatingAdmissionPolicyBinding{}
	},
	NewList:                func() runtime.Object { return &admissionv1.MutatingAdmissionPolicyBindingList{} },
	RequireResourceVersion: true,
	Default: func(b *admissionv1.MutatingAdmissionPolicyBinding) {
		policy.SetMatchDefaults(b.Spec.MatchResources)
	},
	Spec: func(b *admissionv1.MutatingAdmissionPolicyBinding) any { return b.Spec },
	Validate: func(_ context.Context, b *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
		return append(validate(b), manifestname.Validate(b.Name)...)
	},
	ValidateUpdate: func(_ context.Context, b, _ *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
		return append(validate(b), validation.ValidateObjectMeta(&b.ObjectMeta, false, validation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	},
	Authorize: authorize,
	Warnings: func(_ context.Context, b, old *admissionv1.MutatingAdmissionPolicyBinding) []string {
		if old == nil {
			return nil
		}
		return manifestname.Warnings(b.Name)
	},
	Columns: policy.BindingColumns,
	Row: func(b *admissionv1.MutatingAdmissionPolicyBinding) []any {
		return []any{b.Name, b.Spec.PolicyName, policy.RefCell(b.Spec.ParamRef), registry.Age(b.CreationTimestamp)}
	},
}

// authorize is about bindings that are well-formed otherwise.
func authorize(ctx context.Context, c registry.Config, b, _ *admissionv1.MutatingAdmissionPolicyBinding, found field.ErrorList) field.ErrorList {
	if len(found) > 0 {
		return nil
	}
	err := policy.AuthorizeRef(ctx, c, b.Spec.ParamRef, b.Spec.PolicyName, func() (*admissionv1.ParamKind, error) {
		policies, err := c.Stores.Get(admissionv1.Resource("mutatingadmissionpolicies"))
		if err != nil {
			return nil, err
		}
		obj, err := policies.Get(ctx, b.Spec.PolicyName, &metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return obj.(*admissionv1.MutatingAdmissionPolicy).Spec.ParamKind, nil
	})
	if err != nil {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "paramRef"), err.Error())}
	}
	return nil
}

func validate(b *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	path, spec := field.NewPath("spec"), &b.Spec
	errs := policy.ValidatePolicyName(spec.PolicyName, path.Child("policyName"))
	errs = append(errs, policy.ValidateRef(spec.ParamRef, path.Child("paramRef"))...)
	errs = append(errs, policy.ValidateMatch(spec.MatchResources, path.Child("matchResources"))...)
	return append(errs, policy.ValidateMutable(spec.MatchResources, path.Child("matchResources"))...)
}
