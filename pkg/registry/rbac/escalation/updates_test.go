// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package escalation_test

import (
	"context"
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/rbac/clusterrole"
	"minik8s.io/minik8s/pkg/registry/rbac/clusterrolebinding"
	"minik8s.io/minik8s/pkg/registry/rbac/role"
	"minik8s.io/minik8s/pkg/registry/rbac/rolebinding"
)

// nothing is a resolver by which nobody holds any rule.
type nothing struct{}

func (nothing) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return nil, nil, false, nil
}

// begin returns what a resource does about an update by somebody who holds nothing.
func begin[T registry.Object](t *testing.T, r *registry.Resource[T]) func(obj, old registry.Object) error {
	t.Helper()
	s := &registry.Store[T]{Store: &genericregistry.Store{}}
	if err := r.Configure(s, registry.Config{RoleRules: nothing{}, Stores: registry.NewStores()}); err != nil {
		t.Fatal(err)
	}
	ctx := genericapirequest.WithNamespace(genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "u"}), "ns")
	return func(obj, old registry.Object) error {
		_, err := s.BeginUpdate(ctx, obj, old, &metav1.UpdateOptions{})
		return err
	}
}

// By a label a role becomes part of an aggregated one, such as the one that who sets it has. See
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#restrictions-on-role-creation-or-update.
func TestUpdate_ByWhoHoldsNothing(t *testing.T) {
	all := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	kinds := []struct {
		name   string
		object registry.Object
		update func(obj, old registry.Object) error
	}{
		{"role", &rbacv1.Role{Rules: all}, begin(t, role.Resource)},
		{"cluster role", &rbacv1.ClusterRole{Rules: all}, begin(t, clusterrole.Resource)},
		{"role binding", &rbacv1.RoleBinding{RoleRef: ref}, begin(t, rolebinding.Resource)},
		{"cluster role binding", &rbacv1.ClusterRoleBinding{RoleRef: ref}, begin(t, clusterrolebinding.Resource)},
	}
	changes := []struct {
		name    string
		change  func(metav1.Object)
		allowed bool
	}{
		{"label", func(o metav1.Object) {
			o.SetLabels(map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"})
		}, false},
		{"annotation", func(o metav1.Object) { o.SetAnnotations(map[string]string{"a": "b"}) }, false},
		{"finalizer", func(o metav1.Object) { o.SetFinalizers(nil) }, true},
		{"owner", func(o metav1.Object) { o.SetOwnerReferences([]metav1.OwnerReference{{Name: "o"}}) }, true},
		{"nothing", func(metav1.Object) {}, true},
	}
	for _, kind := range kinds {
		for _, tc := range changes {
			t.Run(kind.name+"/"+tc.name, func(t *testing.T) {
				kind.object.SetFinalizers([]string{"example.com/f"})
				obj := kind.object.DeepCopyObject().(registry.Object)
				obj.GetObjectKind().SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("Sent")) // the stored one says nothing
				tc.change(obj)
				err := kind.update(obj, kind.object)
				if tc.allowed != (err == nil) {
					t.Errorf("got %v, want allowed=%t", err, tc.allowed)
				}
				if _, isRole := kind.object.(*rbacv1.ClusterRole); isRole && err != nil && !apierrors.IsForbidden(err) {
					t.Errorf("got %v, want forbidden", err)
				}
			})
		}
	}
}

// inNS allows everything in the namespace "ns".
type inNS struct{ authorizer.Authorizer }

func (inNS) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetNamespace() == "ns" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// What is applied may leave its namespace to the path, and is looked at before it has it.
func TestCreate_NamespaceOfThePath(t *testing.T) {
	c := registry.Config{RoleRules: nothing{}, Authorizer: inNS{}, Stores: registry.NewStores()}
	ctx := genericapirequest.WithNamespace(genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "u"}), "ns")
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{Namespace: "ns", Name: "r"})
	roles := &registry.Store[*rbacv1.Role]{Store: &genericregistry.Store{}}
	bindings := &registry.Store[*rbacv1.RoleBinding]{Store: &genericregistry.Store{}}
	if err := errors.Join(role.Resource.Configure(roles, c), rolebinding.Resource.Configure(bindings, c)); err != nil {
		t.Fatal(err)
	}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	if _, err := roles.BeginCreate(ctx, &rbacv1.Role{Rules: rules}, &metav1.CreateOptions{}); err != nil {
		t.Errorf("role of who may escalate in the namespace: %v", err)
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"}
	if _, err := bindings.BeginCreate(ctx, &rbacv1.RoleBinding{RoleRef: ref}, &metav1.CreateOptions{}); err != nil {
		t.Errorf("binding of who may bind in the namespace: %v", err)
	}
}
