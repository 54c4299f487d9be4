// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mutatingwebhookconfiguration_test

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type config = admissionv1.MutatingWebhookConfiguration

func valid() *config {
	return &config{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name:                    "a.example.com",
			ClientConfig:            admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "ns", Name: "svc"}},
			SideEffects:             new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "*/status"}},
			}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "n", Expression: "object.metadata.name != 'x'"}},
		}},
	}
}

func TestResource(t *testing.T) {
	registrytest.Run(t, mutatingwebhookconfiguration.Resource, registrytest.Case[*config]{
		AddToScheme: admissionv1.AddToScheme,
		Valid:       valid,
		Update:      func(c *config) { c.Webhooks[0].TimeoutSeconds = new(int32(5)) },
		Invalid: []registrytest.Invalid[*config]{
			{Name: "reserved name", Mutate: func(c *config) { c.Name = "x.static.k8s.io" }, Field: "metadata.name"},
			{Name: "hook name", Mutate: func(c *config) { c.Webhooks[0].Name = "a" }, Field: "webhooks[0].name"},
			{Name: "hook name twice", Mutate: func(c *config) { c.Webhooks = append(c.Webhooks, c.Webhooks[0]) }, Field: "webhooks[1].name"},
			{Name: "no client", Mutate: func(c *config) { c.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{} }, Field: "webhooks[0].clientConfig"},
			{Name: "http", Mutate: func(c *config) {
				c.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: new("http://example.com")}
			}, Field: "webhooks[0].clientConfig.url"},
			{Name: "side effects", Mutate: func(c *config) { c.Webhooks[0].SideEffects = new(admissionv1.SideEffectClassSome) }, Field: "webhooks[0].sideEffects"},
			{Name: "no side effects", Mutate: func(c *config) { c.Webhooks[0].SideEffects = nil }, Field: "webhooks[0].sideEffects"},
			{Name: "review version", Mutate: func(c *config) { c.Webhooks[0].AdmissionReviewVersions = []string{"v2"} }, Field: "webhooks[0].admissionReviewVersions"},
			{Name: "timeout", Mutate: func(c *config) { c.Webhooks[0].TimeoutSeconds = new(int32(31)) }, Field: "webhooks[0].timeoutSeconds"},
			{Name: "operation", Mutate: func(c *config) { c.Webhooks[0].Rules[0].Operations[0] = "GET" }, Field: "webhooks[0].rules[0].operations[0]"},
			{Name: "resource under a wildcard", Mutate: func(c *config) { c.Webhooks[0].Rules[0].Resources = []string{"pods/*", "pods/status"} }, Field: "webhooks[0].rules[0].resources[1]"},
			{Name: "scope", Mutate: func(c *config) { c.Webhooks[0].Rules[0].Scope = new(admissionv1.ScopeType("x")) }, Field: "webhooks[0].rules[0].scope"},
			{Name: "condition does not compile", Mutate: func(c *config) { c.Webhooks[0].MatchConditions[0].Expression = "object." }, Field: "webhooks[0].matchConditions[0].expression"},
			{Name: "condition is no bool", Mutate: func(c *config) { c.Webhooks[0].MatchConditions[0].Expression = "'a'" }, Field: "webhooks[0].matchConditions[0].expression"},
			{Name: "condition with params", Mutate: func(c *config) { c.Webhooks[0].MatchConditions[0].Expression = "params.x == 1" }, Field: "webhooks[0].matchConditions[0].expression"},
			{Name: "reinvocation", Mutate: func(c *config) { c.Webhooks[0].ReinvocationPolicy = new(admissionv1.ReinvocationPolicyType("x")) }, Field: "webhooks[0].reinvocationPolicy"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*config]{
			{Name: "new condition", Mutate: func(c *config) { c.Webhooks[0].MatchConditions[0].Expression = "1" }, Field: "webhooks[0].matchConditions[0].expression"},
		},
		Row: []any{"c", int64(1)},
	})
}

func TestDefaults(t *testing.T) {
	c := valid()
	mutatingwebhookconfiguration.Resource.Default(c)
	w := c.Webhooks[0]
	if *w.FailurePolicy != admissionv1.Fail || *w.MatchPolicy != admissionv1.Equivalent || *w.TimeoutSeconds != 10 ||
		w.NamespaceSelector == nil || w.ObjectSelector == nil || *w.ClientConfig.Service.Port != 443 || *w.Rules[0].Scope != admissionv1.AllScopes {
		t.Errorf("defaults are missing: %+v", w)
	}
	if *w.ReinvocationPolicy != admissionv1.NeverReinvocationPolicy {
		t.Errorf("reinvocation policy is %s", *w.ReinvocationPolicy)
	}
}
