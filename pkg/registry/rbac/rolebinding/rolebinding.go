// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package rolebinding serves RoleBindings: who holds a role, or a cluster role, in one namespace. Touch it when their rules change.
package rolebinding

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/rbac/escalation"
	"minik8s.io/minik8s/pkg/registry/rbac/policy"
)

// Resource describes rolebindings.
var Resource = &registry.Resource[*rbacv1.RoleBinding]{
	Kind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	Name: "rolebindings",

	New:                 func() *rbacv1.RoleBinding { return &rbacv1.RoleBinding{} },
	NewList:             func() runtime.Object { return &rbacv1.RoleBindingList{} },
	WholeUpdate:         true,
	AllowCreateOnUpdate: true,
	ValidateName:        policy.ValidateName,
	Default:             func(b *rbacv1.RoleBinding) { policy.SetDefaults(&b.RoleRef, b.Subjects) },
	Validate:            validate,
	ValidateUpdate: func(ctx context.Context, b, old *rbacv1.RoleBinding) field.ErrorList {
		return append(validate(ctx, b), policy.ValidateRoleRefUpdate(b.RoleRef, old.RoleRef)...)
	},
	Columns: policy.BindingColumns("roleBinding", rbacv1beta1.RoleBinding{}.SwaggerDoc()["roleRef"]), // sic: upstream shows the older text
	Row:     func(b *rbacv1.RoleBinding) []any { return policy.BindingRow(b.ObjectMeta, b.RoleRef, b.Subjects) },
	Configure: func(s *registry.Store[*rbacv1.RoleBinding], c registry.Config) error {
		// An object that is applied may leave its namespace to the path.
		check := escalation.New(c)
		done := func(context.Context, bool) {}
		s.BeginCreate = func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
			b := obj.(*rbacv1.RoleBinding)
			return done, check.Binding(ctx, "rolebindings", genericapirequest.NamespaceValue(ctx), b.Name, b.RoleRef)
		}
		s.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, _ *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
			b, o := obj.(*rbacv1.RoleBinding), old.(*rbacv1.RoleBinding)
			if escalation.LetsGo(b, o) {
				return done, nil
			}
			return done, check.Binding(ctx, "rolebindings", genericapirequest.NamespaceValue(ctx), b.Name, b.RoleRef)
		}
		return nil
	},
}

func validate(_ context.Context, b *rbacv1.RoleBinding) field.ErrorList {
	return policy.ValidateBinding(b.RoleRef, b.Subjects, true, "Role", "ClusterRole")
}
