// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterrolebinding serves ClusterRoleBindings: who holds a cluster role everywhere. Touch it when their rules change.
package clusterrolebinding

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/rbac/escalation"
	"minik8s.io/minik8s/pkg/registry/rbac/policy"
)

// Resource describes clusterrolebindings.
var Resource = &registry.Resource[*rbacv1.ClusterRoleBinding]{
	Kind:                rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
	Name:                "clusterrolebindings",
	ClusterScoped:       true,
	New:                 func() *rbacv1.ClusterRoleBinding { return &rbacv1.ClusterRoleBinding{} },
	NewList:             func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} },
	WholeUpdate:         true,
	AllowCreateOnUpdate: true,
	ValidateName:        policy.ValidateName,
	Default:             func(b *rbacv1.ClusterRoleBinding) { policy.SetDefaults(&b.RoleRef, b.Subjects) },
	Validate:            validate,
	ValidateUpdate: func(ctx context.Context, b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
		return append(validate(ctx, b), policy.ValidateRoleRefUpdate(b.RoleRef, old.RoleRef)...)
	},
	Columns: policy.BindingColumns("clusterRoleBinding", rbacv1beta1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"]), // sic: upstream shows the older text
	Row: func(b *rbacv1.ClusterRoleBinding) []any {
		return policy.BindingRow(b.ObjectMeta, b.RoleRef, b.Subjects)
	},
	Configure: func(s *registry.Store[*rbacv1.ClusterRoleBinding], c registry.Config) error {
		check := escalation.New(c)
		done := func(context.Context, bool) {}
		s.BeginCreate = func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
			b := obj.(*rbacv1.ClusterRoleBinding)
			return done, check.Binding(ctx, "clusterrolebindings", "", b.Name, b.RoleRef)
		}
		s.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, _ *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
			b, o := obj.(*rbacv1.ClusterRoleBinding), old.(*rbacv1.ClusterRoleBinding)
			if escalation.LetsGo(b, o) {
				return done, nil
			}
			return done, check.Binding(ctx, "clusterrolebindings", "", b.Name, b.RoleRef)
		}
		return nil
	},
}

func validate(_ context.Context, b *rbacv1.ClusterRoleBinding) field.ErrorList {
	return policy.ValidateBinding(b.RoleRef, b.Subjects, false, "ClusterRole")
}
