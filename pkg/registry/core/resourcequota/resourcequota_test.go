// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourcequota_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/core/resourcequota"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	amount := func(name corev1.ResourceName, q string) func(*corev1.ResourceQuota) {
		return func(r *corev1.ResourceQuota) { r.Spec.Hard[name] = resource.MustParse(q) }
	}
	registrytest.Run(t, resourcequota.Resource, registrytest.Case[*corev1.ResourceQuota]{
		AddToScheme: corev1.AddToScheme,
		Valid: func() *corev1.ResourceQuota {
			return &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "q"},
				Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("3")}},
			}
		},
		Update:       amount("pods", "4"),
		StatusUpdate: func(r *corev1.ResourceQuota) { r.Status.Used = corev1.ResourceList{"pods": resource.MustParse("1")} },
		Invalid: []registrytest.Invalid[*corev1.ResourceQuota]{
			{Name: "half a pod", Mutate: amount("pods", "0.5"), Field: "spec.hard[pods]"},
			{Name: "negative", Mutate: amount("cpu", "-1"), Field: "spec.hard[cpu]"},
			{Name: "unknown", Mutate: amount("x", "1"), Field: "spec.hard[x]"},
			{Name: "conflicting scopes", Mutate: func(r *corev1.ResourceQuota) {
				r.Spec.Scopes = []corev1.ResourceQuotaScope{"BestEffort", "NotBestEffort"}
			}, Field: "spec.scopes"},
			{Name: "no value", Mutate: func(r *corev1.ResourceQuota) {
				r.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: "PriorityClass", Operator: "In"}}}
			}, Field: "spec.scopeSelector.matchExpressions.values"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*corev1.ResourceQuota]{
			{Name: "scopes", Mutate: func(r *corev1.ResourceQuota) { r.Spec.Scopes = []corev1.ResourceQuotaScope{"BestEffort"} }, Field: "spec.scopes"},
		},
		Row: []any{"q", "", ""},
	})
}
