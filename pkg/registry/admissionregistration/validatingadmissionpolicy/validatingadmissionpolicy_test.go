// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package validatingadmissionpolicy_test

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type policy = admissionv1.ValidatingAdmissionPolicy

func TestResource(t *testing.T) {
	registrytest.Run(t, validatingadmissionpolicy.Resource, registrytest.Case[*policy]{
		AddToScheme: admissionv1.AddToScheme,
		Valid: func() *policy {
			return &policy{
				ObjectMeta: metav1.ObjectMeta{Name: "p"},
				Spec: admissionv1.ValidatingAdmissionPolicySpec{
					ParamKind: &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
					MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionv1.RuleWithOperations{
							Operations: []admissionv1.OperationType{admissionv1.Create},
							Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
						},
					}}},
					MatchConditions: []admissionv1.MatchCondition{{Name: "c", Expression: "params.data.on == 'yes'"}},
					Variables:       []admissionv1.Variable{{Name: "replicas", Expression: "object.spec.replicas"}},
					Validations: []admissionv1.Validation{{
						Expression:        "variables.replicas <= int(params.data.max)",
						MessageExpression: "'at most ' + params.data.max",
						Reason:            new(metav1.StatusReasonForbidden),
					}},
					AuditAnnotations: []admissionv1.AuditAnnotation{{Key: "replicas", ValueExpression: "string(variables.replicas)"}},
				},
			}
		},
		Update: func(p *policy) { p.Spec.FailurePolicy = new(admissionv1.Ignore) },
		StatusUpdate: func(p *policy) {
			p.Status.ObservedGeneration = 1
			p.Status.TypeChecking = &admissionv1.TypeChecking{ExpressionWarnings: []admissionv1.ExpressionWarning{{FieldRef: "spec.validations[0].expression", Warning: "w"}}}
		},
		Invalid: []registrytest.Invalid[*policy]{
			{Name: "reserved name", Mutate: func(p *policy) { p.Name = "x.static.k8s.io" }, Field: "metadata.name"},
			{Name: "no constraints", Mutate: func(p *policy) { p.Spec.MatchConstraints = nil }, Field: "spec.matchConstraints"},
			{Name: "no rules", Mutate: func(p *policy) { p.Spec.MatchConstraints.ResourceRules = nil }, Field: "spec.matchConstraints.resourceRules"},
			{Name: "resource name twice", Mutate: func(p *policy) { p.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"a", "a"} }, Field: "spec.matchConstraints.resourceRules[0].resourceNames[1]"},
			{Name: "kind", Mutate: func(p *policy) { p.Spec.ParamKind.Kind = "" }, Field: "spec.paramKind.kind"},
			{Name: "group", Mutate: func(p *policy) { p.Spec.ParamKind.APIVersion = "A/v1" }, Field: "spec.paramKind.apiVersion"},
			{Name: "two slashes", Mutate: func(p *policy) { p.Spec.ParamKind.APIVersion = "a/b/v1" }, Field: "spec.paramKind.apiVersion"},
			{Name: "validates nothing", Mutate: func(p *policy) { p.Spec.Validations, p.Spec.AuditAnnotations = nil, nil }, Field: "spec.validations"},
			{Name: "expression", Mutate: func(p *policy) { p.Spec.Validations[0].Expression = "variables.unknown" }, Field: "spec.validations[0].expression"},
			{Name: "no expression", Mutate: func(p *policy) { p.Spec.Validations[0].Expression = " " }, Field: "spec.validations[0].expression"},
			{Name: "message expression", Mutate: func(p *policy) { p.Spec.Validations[0].MessageExpression = "1" }, Field: "spec.validations[0].messageExpression"},
			{Name: "message expression asks the authorizer", Mutate: func(p *policy) {
				p.Spec.Validations[0].MessageExpression = "authorizer.path('/x').check('get').allowed() ? 'a' : 'b'"
			}, Field: "spec.validations[0].messageExpression"},
			{Name: "message", Mutate: func(p *policy) { p.Spec.Validations[0].Message = "a\nb" }, Field: "spec.validations[0].message"},
			{Name: "reason", Mutate: func(p *policy) { p.Spec.Validations[0].Reason = new(metav1.StatusReasonGone) }, Field: "spec.validations[0].reason"},
			{Name: "variable", Mutate: func(p *policy) { p.Spec.Variables[0].Name = "in" }, Field: "spec.variables[0].name"},
			{Name: "variable expression", Mutate: func(p *policy) { p.Spec.Variables[0].Expression = "x" }, Field: "spec.variables[0].expression"},
			{Name: "annotation key", Mutate: func(p *policy) { p.Spec.AuditAnnotations[0].Key = "a b" }, Field: "spec.auditAnnotations[0].key"},
			{Name: "annotation is no text", Mutate: func(p *policy) { p.Spec.AuditAnnotations[0].ValueExpression = "1" }, Field: "spec.auditAnnotations[0].valueExpression"},
			{Name: "params without a kind", Mutate: func(p *policy) { p.Spec.ParamKind = nil }, Field: "spec.validations[0].expression"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*policy]{
			{Name: "condition", Mutate: func(p *policy) { p.Spec.MatchConditions[0].Expression = "1" }, Field: "spec.matchConditions[0].expression"},
		},
		Row: []any{"p", int64(1), "v1/ConfigMap"},
	})
}
