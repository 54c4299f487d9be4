// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package role serves Roles: sets of permissions in one namespace. Touch it when their rules change.
package role

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/rbac/escalation"
	"minik8s.io/minik8s/pkg/registry/rbac/policy"
)

// Resource describes roles.
var Resource = &registry.Resource[*rbacv1.Role]{
	Kind:                rbacv1.SchemeGroupVersion.WithKind("Role"),
	Name:                "roles",
	New:                 func() *rbacv1.Role { return &rbacv1.Role{} },
	NewList:             func() runtime.Object { return &rbacv1.RoleList{} },
	WholeUpdate:         true,
	AllowCreateOnUpdate: true,
	ValidateName:        policy.ValidateName,
	Validate: func(_ context.Context, r *rbacv1.Role) field.ErrorList {
		return policy.ValidateRules(r.Rules, true, field.NewPath("rules"))
	},
	Columns: policy.RoleColumns,
	Row:     func(r *rbacv1.Role) []any { return policy.RoleRow(r.ObjectMeta) },
	Configure: func(s *registry.Store[*rbacv1.Role], c registry.Config) error {
		// An object that is applied may leave its namespace to the path.
		check := escalation.New(c)
		done := func(context.Context, bool) {}
		s.BeginCreate = func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
			r := obj.(*rbacv1.Role)
			return done, check.Role(ctx, "roles", genericapirequest.NamespaceValue(ctx), r.Name, r.Rules, false)
		}
		s.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, _ *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
			r := obj.(*rbacv1.Role)
			if escalation.LetsGo(r, old.(*rbacv1.Role)) {
				return done, nil
			}
			return done, check.Role(ctx, "roles", genericapirequest.NamespaceValue(ctx), r.Name, r.Rules, false)
		}
		return nil
	},
}
