// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package clusterroleaggregation fills the rules of ClusterRoles that have an aggregationRule (admin, edit, view) with
// the rules of the roles it selects. Touch it when the rules of an aggregated role look wrong.
package clusterroleaggregation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Reconciler keeps the rules of one aggregated ClusterRole up to date.
type Reconciler struct {
	Client client.Client
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	r := &Reconciler{Client: env.Client}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		Watches(&rbacv1.ClusterRole{}, handler.EnqueueRequestsFromMapFunc(r.aggregated)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// aggregated lists all aggregated roles: the change of any role may concern any of them.
func (r *Reconciler) aggregated(ctx context.Context, _ client.Object) []reconcile.Request {
	return ownwrites.EnqueueFor(ctx, r.Client, &rbacv1.ClusterRoleList{}, func(role *rbacv1.ClusterRole) bool { return role.AggregationRule != nil })
}

// Reconcile writes the aggregated rules of the role in req when they differ from its present ones.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var role rbacv1.ClusterRole
	if err := r.Client.Get(ctx, req.NamespacedName, &role); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if role.AggregationRule == nil {
		return reconcile.Result{}, nil
	}
	var list rbacv1.ClusterRoleList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing cluster roles: %w", err)
	}
	rules, err := aggregate(role.Name, role.AggregationRule.ClusterRoleSelectors, list.Items)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("aggregating cluster role %q: %w", role.Name, err)
	}
	if equality.Semantic.DeepEqual(rules, role.Rules) {
		return reconcile.Result{}, nil
	}
	patch, err := applyPatch(role.Name, rules)
	if err != nil {
		return reconcile.Result{}, err
	}
	// Only the rules are applied, so that labels and selectors stay with whoever wrote them.
	err = r.Client.Patch(ctx, &role, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner("clusterrole-aggregation-controller"), client.ForceOwnership)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{}, nil
}

// applyPatch renders the server-side apply document that sets the rules of the named role and nothing else.
func applyPatch(name string, rules []rbacv1.PolicyRule) ([]byte, error) {
	if rules == nil {
		rules = []rbacv1.PolicyRule{}
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(),
		"kind":       "ClusterRole",
		"metadata":   map[string]string{"name": name},
		"rules":      rules,
	})
	if err != nil {
		return nil, fmt.Errorf("rendering the rules of cluster role %q: %w", name, err)
	}
	return patch, nil
}

// aggregate returns the rules of the roles that any of the selectors selects, each once, in the order of selectors and
// role names.
func aggregate(name string, selectors []metav1.LabelSelector, roles []rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	roles = slices.Clone(roles)
	slices.SortFunc(roles, func(a, b rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	var rules []rbacv1.PolicyRule
	for i := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(&selectors[i])
		if err != nil {
			return nil, fmt.Errorf("parsing selector: %w", err)
		}
		for j := range roles {
			if roles[j].Name == name || !selector.Matches(labels.Set(roles[j].Labels)) {
				continue
			}
			for _, rule := range roles[j].Rules {
				if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, rule) }) {
					rules = append(rules, *rule.DeepCopy())
				}
			}
		}
	}
	return rules, nil
}
