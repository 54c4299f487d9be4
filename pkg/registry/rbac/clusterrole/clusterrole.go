// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterrole serves ClusterRoles: sets of permissions in all namespaces and on what is outside of them, possibly aggregated from other cluster roles. Touch it when their rules change.
package clusterrole

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/rbac/escalation"
	"minik8s.io/minik8s/pkg/registry/rbac/policy"
)

// Resource describes clusterroles.
var Resource = &registry.Resource[*rbacv1.ClusterRole]{
	Kind:                rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
	Name:                "clusterroles",
	ClusterScoped:       true,
	New:                 func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} },
	NewList:             func() runtime.Object { return &rbacv1.ClusterRoleList{} },
	WholeUpdate:         true,
	AllowCreateOnUpdate: true,
	ValidateName:        policy.ValidateName,
	Validate: func(_ context.Context, r *rbacv1.ClusterRole) field.ErrorList {
		return validate(r, metav1validation.LabelSelectorValidationOptions{})
	},
	ValidateUpdate: func(_ context.Context, r, old *rbacv1.ClusterRole) field.ErrorList {
		return validate(r, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: hasInvalidValue(old)})
	},
	Columns: policy.RoleColumns,
	Row:     func(r *rbacv1.ClusterRole) []any { return policy.RoleRow(r.ObjectMeta) },
	Configure: func(s *registry.Store[*rbacv1.ClusterRole], c registry.Config) error {
		check := escalation.New(c)
		done := func(context.Context, bool) {}
		s.BeginCreate = func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (genericregistry.FinishFunc, error) {
			r := obj.(*rbacv1.ClusterRole)
			return done, check.Role(ctx, "clusterroles", "", r.Name, r.Rules, aggregated(r))
		}
		s.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, _ *metav1.UpdateOptions) (genericregistry.FinishFunc, error) {
			r, o := obj.(*rbacv1.ClusterRole), old.(*rbacv1.ClusterRole)
			if escalation.LetsGo(r, o) {
				return done, nil
			}
			return done, check.Role(ctx, "clusterroles", "", r.Name, r.Rules, aggregated(r) || aggregated(o))
		}
		return nil
	},
}

func aggregated(r *rbacv1.ClusterRole) bool {
	return r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

func validate(r *rbacv1.ClusterRole, o metav1validation.LabelSelectorValidationOptions) field.ErrorList {
	errs := policy.ValidateRules(r.Rules, false, field.NewPath("rules"))
	if r.AggregationRule == nil {
		return errs
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		selector := &r.AggregationRule.ClusterRoleSelectors[i]
		errs = append(errs, metav1validation.ValidateLabelSelector(selector, o, path.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), selector, "invalid label selector."))
		}
	}
	return errs
}

// hasInvalidValue tells whether a role stems from a time when the values in selectors were not checked.
func hasInvalidValue(r *rbacv1.ClusterRole) bool {
	if r.AggregationRule == nil {
		return false
	}
	return slices.ContainsFunc(r.AggregationRule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
		return len(metav1validation.ValidateLabelSelector(&s, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
	})
}
