// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package poddisruptionbudget_test

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/pkg/registry/policy/poddisruptionbudget"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, poddisruptionbudget.Resource, registrytest.Case[*policyv1.PodDisruptionBudget]{
		AddToScheme: policyv1.AddToScheme,
		Valid: func() *policyv1.PodDisruptionBudget {
			return &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Name: "b"},
				Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))},
			}
		},
		Update:       func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromString("50%")) },
		StatusUpdate: func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 },
		Invalid: []registrytest.Invalid[*policyv1.PodDisruptionBudget]{
			{Name: "both", Mutate: func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = b.Spec.MinAvailable }, Field: "spec"},
			{Name: "more than all", Mutate: func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromString("101%")) }, Field: "spec.minAvailable"},
			{Name: "policy", Mutate: func(b *policyv1.PodDisruptionBudget) {
				b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.UnhealthyPodEvictionPolicyType("x"))
			}, Field: "spec.unhealthyPodEvictionPolicy"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*policyv1.PodDisruptionBudget]{
			{Name: "selector", Mutate: func(b *policyv1.PodDisruptionBudget) {
				b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "no value"}}
			}, Field: "spec.selector.matchLabels"},
		},
		Row: []any{"b", "1", "N/A", int64(0)},
	})
}
