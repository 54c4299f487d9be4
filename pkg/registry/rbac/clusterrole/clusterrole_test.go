// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package clusterrole_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/rbac/clusterrole"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, clusterrole.Resource, registrytest.Case[*rbacv1.ClusterRole]{
		AddToScheme: rbacv1.AddToScheme,
		Valid: func() *rbacv1.ClusterRole {
			return &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: "r"},
				Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/healthz"}, Verbs: []string{"get"}}},
			}
		},
		Update: func(r *rbacv1.ClusterRole) { r.Rules[0].Verbs = []string{"head"} },
		Invalid: []registrytest.Invalid[*rbacv1.ClusterRole]{
			{Name: "both", Mutate: func(r *rbacv1.ClusterRole) { r.Rules[0].Resources = []string{"pods"} }, Field: "rules[0].nonResourceURLs"},
			{Name: "no selector", Mutate: func(r *rbacv1.ClusterRole) { r.AggregationRule = &rbacv1.AggregationRule{} }, Field: "aggregationRule.clusterRoleSelectors"},
		},
	})
}
