// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package validatingadmissionpolicybinding serves ValidatingAdmissionPolicyBindings: where a policy applies, and with which
// parameters. Touch it when their rules change; see policy for those of all admission policies.
package validatingadmissionpolicybinding

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/manifestname"
	"minik8s.io/minik8s/pkg/registry/admissionregistration/policy"
)

// Resource describes validatingadmissionpolicybindings.
var Resource = &registry.Resource[*admissionv1.ValidatingAdmissionPolicyBinding]{
	Kind:          admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding"),
	Name:          "validatingadmissionpolicybindings",
	Categories:    []string{"api-extensions"},
	ClusterScoped: true,
	Metadata:      registry.GenericMetadata,
	New: func() *admissionv1.ValidatingAdmissionPolicyBinding {
		return &admissionv1.ValidatingAdmissionPolicyBinding{}
	},
	NewList:                func() runtime.Object { return &admissionv1.ValidatingAdmissionPolicyBindingList{} },
	RequireResourceVersion: true,
	Default: func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
		policy.SetMatchDefaults(b.Spec.MatchResources)
	},
	Spec: func(b *admissionv1.ValidatingAdmissionPolicyBinding) any { return b.Spec },
	Validate: func(_ context.Context, b *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
		return append(validate(b), manifestname.Validate(b.Name)...)
	},
	ValidateUpdate: func(_ context.Context, b, _ *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
		return append(validate(b), validation.ValidateObjectMeta(&b.ObjectMeta, false, validation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	},
	Authorize: authorize,
	Warnings: func(_ context.Context, b, old *admissionv1.ValidatingAdmissionPolicyBinding) []string {
		if old == nil {
			return nil
		}
		return manifestname.Warnings(b.Name)
	},
	Columns: policy.BindingColumns,
	Row: func(b *admissionv1.ValidatingAdmissionPolicyBinding) []any {
		return []any{b.Name, b.Spec.PolicyName, policy.RefCell(b.Spec.ParamRef), registry.Age(b.CreationTimestamp)}
	},
}

// authorize is about bindings that are well-formed otherwise.
func authorize(ctx context.Context, c registry.Config, b, _ *admissionv1.ValidatingAdmissionPolicyBinding, found field.ErrorList) field.ErrorList {
	if len(found) > 0 {
		return nil
	}
	err := policy.AuthorizeRef(ctx, c, b.Spec.ParamRef, b.Spec.PolicyName, func() (*admissionv1.ParamKind, error) {
		policies, err := c.Stores.Get(admissionv1.Resource("validatingadmissionpolicies"))
		if err != nil {
			return nil, err
		}
		obj, err := policies.Get(ctx, b.Spec.PolicyName, &metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return obj.(*admissionv1.ValidatingAdmissionPolicy).Spec.ParamKind, nil
	})
	if err != nil {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "paramRef"), err.Error())}
	}
	return nil
}

func validate(b *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	path, spec := field.NewPath("spec"), &b.Spec
	errs := policy.ValidatePolicyName(spec.PolicyName, path.Child("policyName"))
	errs = append(errs, policy.ValidateRef(spec.ParamRef, path.Child("paramRef"))...)
	errs = append(errs, policy.ValidateMatch(spec.MatchResources, path.Child("matchResources"))...)
	return append(errs, validateActions(spec.ValidationActions, path.Child("validationActions"))...)
}

var actions = []admissionv1.ValidationAction{admissionv1.Audit, admissionv1.Deny, admissionv1.Warn}

func validateActions(chosen []admissionv1.ValidationAction, path *field.Path) field.ErrorList {
	if len(chosen) == 0 {
		return field.ErrorList{field.Required(path, "at least one validation action is required")}
	}
	var errs field.ErrorList
	seen := sets.New[admissionv1.ValidationAction]()
	for i, a := range chosen {
		if !slices.Contains(actions, a) {
			errs = append(errs, field.NotSupported(path.Index(i), a, actions))
		}
		if seen.Has(a) {
			errs = append(errs, field.Duplicate(path.Index(i), a))
		}
		seen.Insert(a)
	}
	if seen.HasAll(admissionv1.Deny, admissionv1.Warn) {
		errs = append(errs, field.Invalid(path, chosen, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	return errs
}
