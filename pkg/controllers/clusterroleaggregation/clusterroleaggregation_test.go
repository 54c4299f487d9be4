// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package clusterroleaggregation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
