// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

func newAuthorizer(t *testing.T, objects ...any) *Authorizer {
	t.Helper()
	ix := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	roles, bindings, clusterRoles, clusterBindings := ix(), ix(), ix(), ix()
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
			t.Fatal(err)
		}
	}
	return &Authorizer{
		Roles: rbaclisters.NewRoleLister(roles), RoleBindings: rbaclisters.NewRoleBindingLister(bindings),
		ClusterRoles: rbaclisters.NewClusterRoleLister(clusterRoles), ClusterRoleBindings: rbaclisters.NewClusterRoleBindingLister(clusterBindings),
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
