// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package clusterroleaggregation

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

func role(name, label string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}, Rules: rules}
}

func TestAggregate(t *testing.T) {
	pods := rbacv1.PolicyRule{Verbs: []string{"get"}, Resources: []string{"pods"}}
	nodes := rbacv1.PolicyRule{Verbs: []string{"get"}, Resources: []string{"nodes"}}
	secrets := rbacv1.PolicyRule{Verbs: []string{"get"}, Resources: []string{"secrets"}}
	selectors := []metav1.LabelSelector{{MatchLabels: map[string]string{"to-edit": "true"}}, {MatchLabels: map[string]string{"to-view": "true"}}}
	roles := []rbacv1.ClusterRole{role("z", "to-edit", pods), role("b", "to-edit", nodes, pods), role("v", "to-view", pods, secrets), role("edit", "to-edit", secrets), role("x", "other", secrets)}
	got, err := aggregate("edit", selectors, roles)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{nodes, pods, secrets}, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestApplyPatch_NoRules(t *testing.T) {
	got, err := applyPatch("edit", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"edit"},"rules":[]}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReconciler(t *testing.T) {
	pods := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	nodes := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}
	to := func(rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		r := role("edit", "to-admin", rules...)
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"to-edit": "true"}}}}
		return &r
	}
	from := func(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		r := role(name, "to-edit", rules...)
		return &r
	}
	key := types.NamespacedName{Name: "edit"}
	for name, objects := range map[string][]client.Object{
		"new":                    {to(), from("a", pods), from("b", nodes)},
		"one more":               {to(pods), from("a", pods), from("b", nodes)},
		"one is gone":            {to(pods, nodes, rbacv1.PolicyRule{Verbs: []string{"*"}}), from("a", pods), from("b", nodes)},
		"changed by hand before": {to(nodes, pods), from("a", pods), from("b", nodes)},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Run(t, controllertest.Case{
				Objects: objects,
				Request: reconcile.Request{NamespacedName: key},
				New:     func(c client.Client) reconcile.Reconciler { return &Reconciler{Client: c} },
				Applies: true,
				Want: func(ctx context.Context, c client.Client) error {
					var got rbacv1.ClusterRole
					if err := c.Get(ctx, key, &got); err != nil {
						return err
					}
					if diff := cmp.Diff([]rbacv1.PolicyRule{pods, nodes}, got.Rules); diff != "" {
						return fmt.Errorf("rules (-want +got):\n%s", diff)
					}
					if got.AggregationRule == nil || got.Labels["to-admin"] != "true" {
						return fmt.Errorf("what else the role has is lost: %v", got)
					}
					return nil
				},
			})
		})
	}
}
