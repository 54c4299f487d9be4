// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"strconv"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

func newAuthorizer(tb testing.TB, objects ...any) *Authorizer {
	tb.Helper()
	ix := func(by cache.Indexers) cache.Indexer { return cache.NewIndexer(cache.MetaNamespaceKeyFunc, by) }
	namespaces := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	roles, bindings, clusterRoles, clusterBindings := ix(namespaces), ix(Indexers()), ix(namespaces), ix(Indexers())
	for _, o := range objects {
		var err error
		switch o.(type) {
		case *rbacv1.Role:
			err = roles.Add(o)
		case *rbacv1.RoleBinding:
			err = bindings.Add(o)
		case *rbacv1.ClusterRole:
			err = clusterRoles.Add(o)
		case *rbacv1.ClusterRoleBinding:
			err = clusterBindings.Add(o)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	return &Authorizer{
		Roles: rbaclisters.NewRoleLister(roles), RoleBindings: bindings,
		ClusterRoles: rbaclisters.NewClusterRoleLister(clusterRoles), ClusterRoleBindings: clusterBindings,
	}
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	a := newAuthorizer(t,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods", "*/status"}},
			{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/logs/*"}},
		}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"configmaps"}, ResourceNames: []string{"c"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"},
			Subjects: []rbacv1.Subject{{Kind: "Group", Name: "readers"}, {Kind: "ServiceAccount", Namespace: "ns", Name: "sa"}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "one"},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}, {Kind: "ServiceAccount", Name: "local"}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "dangling"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "none"},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}},
	)
	reader := &user.DefaultInfo{Name: "x", Groups: []string{"readers"}}
	ann := &user.DefaultInfo{Name: "ann"}
	for _, tc := range []struct {
		name  string
		attrs authorizer.AttributesRecord
		want  authorizer.Decision
	}{
		{"group reads pods everywhere", authorizer.AttributesRecord{User: reader, Verb: "list", Namespace: "z", Resource: "pods", ResourceRequest: true}, authorizer.DecisionAllow},
		{"not another verb", authorizer.AttributesRecord{User: reader, Verb: "delete", Namespace: "z", Resource: "pods", ResourceRequest: true}, authorizer.DecisionNoOpinion},
		{"not a subresource", authorizer.AttributesRecord{User: reader, Verb: "get", Namespace: "z", Resource: "pods", Subresource: "log", ResourceRequest: true}, authorizer.DecisionNoOpinion},
		{"any status", authorizer.AttributesRecord{User: reader, Verb: "get", Resource: "nodes", Subresource: "status", ResourceRequest: true}, authorizer.DecisionAllow},
		{"not another group", authorizer.AttributesRecord{User: reader, Verb: "get", Resource: "pods", APIGroup: "x", ResourceRequest: true}, authorizer.DecisionNoOpinion},
		{"path", authorizer.AttributesRecord{User: reader, Verb: "get", Path: "/logs/a/b"}, authorizer.DecisionAllow},
		{"not another path", authorizer.AttributesRecord{User: reader, Verb: "get", Path: "/metrics/cadvisor"}, authorizer.DecisionNoOpinion},
		{"service account", authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "system:serviceaccount:ns:sa"}, Verb: "get", Resource: "pods", ResourceRequest: true}, authorizer.DecisionAllow},
		{"binding's own namespace", authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "system:serviceaccount:a:local"}, Verb: "get", Namespace: "a", Resource: "configmaps", Name: "c", ResourceRequest: true}, authorizer.DecisionAllow},
		{"named object", authorizer.AttributesRecord{User: ann, Verb: "update", Namespace: "a", Resource: "configmaps", Name: "c", APIGroup: "g", ResourceRequest: true}, authorizer.DecisionAllow},
		{"not another object", authorizer.AttributesRecord{User: ann, Verb: "update", Namespace: "a", Resource: "configmaps", Name: "d", ResourceRequest: true}, authorizer.DecisionNoOpinion},
		{"not another namespace", authorizer.AttributesRecord{User: ann, Verb: "update", Namespace: "b", Resource: "configmaps", Name: "c", ResourceRequest: true}, authorizer.DecisionNoOpinion},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, reason, err := a.Authorize(context.Background(), tc.attrs)
			if got != tc.want || err != nil {
				t.Errorf("decision %v (%s, %v), want %v", got, reason, err, tc.want)
			}
		})
	}
}

// TestAuthorize_Reason: the texts are upstream's.
func TestAuthorize_Reason(t *testing.T) {
	t.Parallel()
	everything := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	clusterRole, role := rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"}, rbacv1.RoleRef{Kind: "Role", Name: "one"}
	get := authorizer.AttributesRecord{Verb: "get", Namespace: "a", Resource: "pods", ResourceRequest: true}
	account := &user.DefaultInfo{Name: "system:serviceaccount:a:sa", Groups: []string{"g", "h"}}
	for _, tt := range []struct {
		name    string
		binding any
		want    string // without what all begin with; empty if it is not allowed
	}{
		{"a group", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: clusterRole, Subjects: []rbacv1.Subject{{Kind: "User", Name: "x"}, {Kind: "Group", Name: "h"}}},
			`ClusterRoleBinding "b" of ClusterRole "reader" to Group "h"`},
		{"the first of the subjects", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: clusterRole, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "h"}, {Kind: "Group", Name: "g"}, {Kind: "User", Name: account.Name}}},
			`ClusterRoleBinding "b" of ClusterRole "reader" to Group "h"`},
		{"an account", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: clusterRole, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "a", Name: "sa"}}},
			`ClusterRoleBinding "b" of ClusterRole "reader" to ServiceAccount "sa/a"`},
		{"an account of no namespace", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: clusterRole, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "sa"}}}, ""},
		{"a namespace's", &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, RoleRef: role, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "sa"}}},
			`RoleBinding "b/a" of Role "one" to ServiceAccount "sa/a"`},
		{"another namespace's", &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "z", Name: "b"}, RoleRef: clusterRole, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "g"}}}, ""},
		{"a kind that is none", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: clusterRole, Subjects: []rbacv1.Subject{{Kind: "Robot", Name: account.Name}}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAuthorizer(t, tt.binding, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: everything},
				&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}, Rules: everything})
			attrs := get
			attrs.User = account
			want := tt.want
			if want != "" {
				want = "RBAC: allowed by " + want
			}
			if _, reason, err := a.Authorize(t.Context(), attrs); reason != want || err != nil {
				t.Errorf("reason %q, %v, want %q", reason, err, want)
			}
		})
	}
}

// TestRulesFor_Once: who is bound in several ways by one binding has its rules once.
func TestRulesFor_Once(t *testing.T) {
	t.Parallel()
	a := newAuthorizer(t,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}, {Kind: "Group", Name: "g"}, {Kind: "Group", Name: "h"}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "dangling"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "none"},
			Subjects: []rbacv1.Subject{{Kind: "Group", Name: "g"}}},
	)
	rules, _, _, err := a.RulesFor(t.Context(), &user.DefaultInfo{Name: "ann", Groups: []string{"g", "h"}}, "a")
	if len(rules) != 1 {
		t.Errorf("%d rules", len(rules))
	}
	if err == nil || err.Error() != `clusterrole.rbac.authorization.k8s.io "none" not found` {
		t.Errorf("error %v", err)
	}
}

// BenchmarkAuthorize asks for an account that is one of a thousand with a binding each, beside what every cluster has.
func BenchmarkAuthorize(b *testing.B) {
	objects := []any{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "discovery"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/api", "/api/*"}}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
	}
	for _, name := range []string{"discovery", "basic-user", "public-info-viewer"} {
		objects = append(objects, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "discovery"},
			Subjects: []rbacv1.Subject{{Kind: "Group", Name: user.AllAuthenticated}}})
	}
	for i := range 1000 {
		objects = append(objects, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b" + strconv.Itoa(i)}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ns", Name: "sa" + strconv.Itoa(i)}}})
	}
	a := newAuthorizer(b, objects...)
	attrs := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "system:serviceaccount:ns:sa500", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", user.AllAuthenticated}},
		Verb: "list", Namespace: "z", Resource: "pods", ResourceRequest: true,
	}
	b.ReportAllocs()
	for b.Loop() {
		if d, _, err := a.Authorize(b.Context(), attrs); d != authorizer.DecisionAllow || err != nil {
			b.Fatal(d, err)
		}
	}
}
