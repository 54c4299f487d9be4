// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy is the RBAC policy that every cluster starts with: the roles and bindings of users, nodes, components and
// controllers. Touch it when one of these needs another permission; a role is a line in the file of its theme. See
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings.
package policy

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"

	"minik8s.io/minik8s/pkg/apis/feature"
)

// Policy is a set of roles and bindings.
type Policy struct {
	ClusterRoles        []rbacv1.ClusterRole
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	Roles               []rbacv1.Role
	RoleBindings        []rbacv1.RoleBinding
}

// Default is the policy of a new cluster, upstream's. The caller owns what it returns.
func Default() Policy {
	var p Policy
	for _, theme := range []func() Policy{users, nodes, components, certificates, controllers, namespaced} {
		p = p.With(theme())
	}
	return p
}

// With is p and more.
func (p Policy) With(more Policy) Policy {
	return Policy{
		ClusterRoles:        slices.Concat(p.ClusterRoles, more.ClusterRoles),
		ClusterRoleBindings: slices.Concat(p.ClusterRoleBindings, more.ClusterRoleBindings),
		Roles:               slices.Concat(p.Roles, more.Roles),
		RoleBindings:        slices.Concat(p.RoleBindings, more.RoleBindings),
	}
}

// Verbs that often go together.
const (
	read      = "get list watch"
	write     = "create delete deletecollection patch update"
	readWrite = read + " " + write
)

// on permits verbs on resources of API groups. All three are lists separated by blanks; the group "" is the core group.
func on(groups, resources, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: list(groups), Resources: list(resources), Verbs: list(verbs)}
}

// named is on for objects of these names only.
func named(names string, r rbacv1.PolicyRule) rbacv1.PolicyRule {
	r.ResourceNames = list(names)
	return r
}

// paths permits GET of what is not a resource.
func paths(urls string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{NonResourceURLs: list(urls), Verbs: []string{"get"}}
}

// gated are rules that are part of the policy while a gate is on.
func gated(gate featuregate.Feature, rules ...rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if !feature.Enabled(gate) {
		return nil
	}
	return rules
}

// events permits to report events through both groups that serve them.
func events() rbacv1.PolicyRule { return onEvents("create patch update") }

// onEvents permits verbs on events of both groups.
func onEvents(verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: list(verbs)}
}

func list(s string) []string {
	if s == "" {
		return []string{""}
	}
	l := strings.Fields(s)
	slices.Sort(l)
	return l
}

// meta marks what belongs to the policy: later starts add what is missing in it, unless somebody has set the annotation
// to false.
func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:   namespace,
		Name:        name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules}
}

func clusterBinding(name, role string, subjects ...rbacv1.Subject) rbacv1.ClusterRoleBinding {
	return rbacv1.ClusterRoleBinding{
		ObjectMeta: meta("", name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   subjects,
	}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) rbacv1.Role {
	return rbacv1.Role{ObjectMeta: meta(namespace, name), Rules: rules}
}

func binding(namespace, name, role string, subjects ...rbacv1.Subject) rbacv1.RoleBinding {
	return rbacv1.RoleBinding{
		ObjectMeta: meta(namespace, name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   subjects,
	}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

// account is a ServiceAccount in kube-system.
func account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}
}
