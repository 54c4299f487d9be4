// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package validatingadmissionpolicybinding_test

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type binding = admissionv1.ValidatingAdmissionPolicyBinding

func TestResource(t *testing.T) {
	registrytest.Run(t, validatingadmissionpolicybinding.Resource, registrytest.Case[*binding]{
		AddToScheme: admissionv1.AddToScheme,
		Valid: func() *binding {
			return &binding{
				ObjectMeta: metav1.ObjectMeta{Name: "b"},
				Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
					PolicyName:        "p",
					ParamRef:          &admissionv1.ParamRef{Name: "limits", Namespace: "ns", ParameterNotFoundAction: new(admissionv1.DenyAction)},
					MatchResources:    &admissionv1.MatchResources{},
					ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
				},
			}
		},
		Update: func(b *binding) { b.Spec.PolicyName = "q" },
		Invalid: []registrytest.Invalid[*binding]{
			{Name: "reserved name", Mutate: func(b *binding) { b.Name = "x.static.k8s.io" }, Field: "metadata.name"},
			{Name: "no policy", Mutate: func(b *binding) { b.Spec.PolicyName = "" }, Field: "spec.policyName"},
			{Name: "policy", Mutate: func(b *binding) { b.Spec.PolicyName = "A" }, Field: "spec.policyName"},
			{Name: "no parameter", Mutate: func(b *binding) { b.Spec.ParamRef.Name = "" }, Field: "spec.paramRef"},
			{Name: "name and selector", Mutate: func(b *binding) { b.Spec.ParamRef.Selector = &metav1.LabelSelector{} }, Field: "spec.paramRef.selector"},
			{Name: "not found", Mutate: func(b *binding) { b.Spec.ParamRef.ParameterNotFoundAction = nil }, Field: "spec.paramRef.parameterNotFoundAction"},
			{Name: "match policy", Mutate: func(b *binding) { b.Spec.MatchResources.MatchPolicy = new(admissionv1.MatchPolicyType("x")) }, Field: "spec.matchResources.matchPolicy"},
			{Name: "no action", Mutate: func(b *binding) { b.Spec.ValidationActions = nil }, Field: "spec.validationActions"},
			{Name: "action", Mutate: func(b *binding) { b.Spec.ValidationActions[0] = "x" }, Field: "spec.validationActions[0]"},
			{Name: "action twice", Mutate: func(b *binding) { b.Spec.ValidationActions = append(b.Spec.ValidationActions, admissionv1.Deny) }, Field: "spec.validationActions[1]"},
			{Name: "deny and warn", Mutate: func(b *binding) { b.Spec.ValidationActions = append(b.Spec.ValidationActions, admissionv1.Warn) }, Field: "spec.validationActions"},
		},
		Row: []any{"b", "p", "ns/limits"},
	})
}
