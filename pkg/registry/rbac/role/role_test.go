// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package role_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/rbac/role"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, role.Resource, registrytest.Case[*rbacv1.Role]{
		AddToScheme: rbacv1.AddToScheme,
		Valid: func() *rbacv1.Role {
			return &rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Name: "r:x"},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
			}
		},
		Update: func(r *rbacv1.Role) { r.Rules[0].Verbs = []string{"list"} },
		Invalid: []registrytest.Invalid[*rbacv1.Role]{
			{Name: "no verbs", Mutate: func(r *rbacv1.Role) { r.Rules[0].Verbs = nil }, Field: "rules[0].verbs"},
			{Name: "no groups", Mutate: func(r *rbacv1.Role) { r.Rules[0].APIGroups = nil }, Field: "rules[0].apiGroups"},
			{Name: "no resources", Mutate: func(r *rbacv1.Role) { r.Rules[0].Resources = nil }, Field: "rules[0].resources"},
			{Name: "URLs", Mutate: func(r *rbacv1.Role) { r.Rules[0].NonResourceURLs = []string{"/x"} }, Field: "rules[0].nonResourceURLs"},
		},
	})
}
