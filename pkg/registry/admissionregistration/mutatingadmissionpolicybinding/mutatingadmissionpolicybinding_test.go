// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mutatingadmissionpolicybinding_test

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type binding = admissionv1.MutatingAdmissionPolicyBinding

func TestResource(t *testing.T) {
	registrytest.Run(t, mutatingadmissionpolicybinding.Resource, registrytest.Case[*binding]{
		AddToScheme: admissionv1.AddToScheme,
		Valid: func() *binding {
			return &binding{
				ObjectMeta: metav1.ObjectMeta{Name: "b"},
				Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
					PolicyName:     "p",
					ParamRef:       &admissionv1.ParamRef{Name: "limits", Namespace: "ns", ParameterNotFoundAction: new(admissionv1.DenyAction)},
					MatchResources: &admissionv1.MatchResources{},
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
			{Name: "delete", Mutate: func(b *binding) {
				b.Spec.MatchResources.ResourceRules = []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
				}}}
			}, Field: "spec.matchResources.resourceRules.operations"},
		},
		Row: []any{"b", "p", "ns/limits"},
	})
}
