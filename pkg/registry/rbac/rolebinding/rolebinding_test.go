// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package rolebinding_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/rbac/rolebinding"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func TestResource(t *testing.T) {
	registrytest.Run(t, rolebinding.Resource, registrytest.Case[*rbacv1.RoleBinding]{
		AddToScheme: rbacv1.AddToScheme,
		Valid: func() *rbacv1.RoleBinding {
			return &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "b"},
				RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"},
				Subjects:   []rbacv1.Subject{{Kind: "User", Name: "u"}},
			}
		},
		Update: func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "v" },
		Invalid: []registrytest.Invalid[*rbacv1.RoleBinding]{
			{Name: "kind of role", Mutate: func(b *rbacv1.RoleBinding) { b.RoleRef.Kind = "X" }, Field: "roleRef.kind"},
			{Name: "no role", Mutate: func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "" }, Field: "roleRef.name"},
			{Name: "kind of subject", Mutate: func(b *rbacv1.RoleBinding) { b.Subjects[0].Kind = "X" }, Field: "subjects[0].kind"},
			{Name: "no name", Mutate: func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "" }, Field: "subjects[0].name"},
			{Name: "group of account", Mutate: func(b *rbacv1.RoleBinding) {
				b.Subjects[0] = rbacv1.Subject{Kind: "ServiceAccount", Namespace: "n", Name: "a", APIGroup: "x"}
			}, Field: "subjects[0].apiGroup"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*rbacv1.RoleBinding]{
			{Name: "role", Mutate: func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "edit" }, Field: "roleRef"},
		},
		Row: []any{"b", "ClusterRole/view"},
	})
}
