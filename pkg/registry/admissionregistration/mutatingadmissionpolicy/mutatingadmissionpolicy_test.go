// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mutatingadmissionpolicy_test

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type policy = admissionv1.MutatingAdmissionPolicy

func TestResource(t *testing.T) {
	registrytest.Run(t, mutatingadmissionpolicy.Resource, registrytest.Case[*policy]{
		AddToScheme: admissionv1.AddToScheme,
		Valid: func() *policy {
			return &policy{
				ObjectMeta: metav1.ObjectMeta{Name: "p"},
				Spec: admissionv1.MutatingAdmissionPolicySpec{
					MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionv1.RuleWithOperations{
							Operations: []admissionv1.OperationType{admissionv1.Create},
							Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
						},
					}}},
					Variables:          []admissionv1.Variable{{Name: "color", Expression: "'red'"}},
					ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
					Mutations: []admissionv1.Mutation{
						{PatchType: admissionv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: `Object{metadata: Object.metadata{labels: {"color": variables.color}}}`}},
						{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: `[JSONPatch{op: "add", path: "/data/a", value: "b"}]`}},
					},
				},
			}
		},
		Update: func(p *policy) { p.Spec.FailurePolicy = new(admissionv1.Ignore) },
		Invalid: []registrytest.Invalid[*policy]{
			{Name: "reserved name", Mutate: func(p *policy) { p.Name = "x.static.k8s.io" }, Field: "metadata.name"},
			{Name: "delete", Mutate: func(p *policy) {
				p.Spec.MatchConstraints.ResourceRules[0].Operations[0] = admissionv1.Delete
			}, Field: "spec.matchConstraints.resourceRules.operations"},
			{Name: "no mutations", Mutate: func(p *policy) { p.Spec.Mutations = nil }, Field: "spec.mutations"},
			{Name: "reinvocation", Mutate: func(p *policy) { p.Spec.ReinvocationPolicy = "" }, Field: "spec.reinvocationPolicy"},
			{Name: "patch type", Mutate: func(p *policy) { p.Spec.Mutations[0].PatchType = "x" }, Field: "spec.mutations[0].patchType"},
			{Name: "other patch", Mutate: func(p *policy) { p.Spec.Mutations[0].PatchType = admissionv1.PatchTypeJSONPatch }, Field: "spec.mutations[0].jsonPatch"},
			{Name: "both patches", Mutate: func(p *policy) { p.Spec.Mutations[0].JSONPatch = p.Spec.Mutations[1].JSONPatch }, Field: "spec.mutations[0].jsonPatch"},
			{Name: "configuration of no object", Mutate: func(p *policy) { p.Spec.Mutations[0].ApplyConfiguration.Expression = "1" }, Field: "spec.mutations[0].applyConfiguration.expression"},
			{Name: "patch is no list", Mutate: func(p *policy) { p.Spec.Mutations[1].JSONPatch.Expression = "1" }, Field: "spec.mutations[1].jsonPatch.expression"},
			{Name: "unknown variable", Mutate: func(p *policy) { p.Spec.Variables = nil }, Field: "spec.mutations[0].applyConfiguration.expression"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*policy]{
			{Name: "no expression", Mutate: func(p *policy) { p.Spec.Mutations[1].JSONPatch.Expression = "" }, Field: "spec.mutations[1].jsonPatch.expression"},
		},
		Row: []any{"p", int64(2), "<unset>"},
	})
}
