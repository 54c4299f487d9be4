// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespaced are roles for single objects in system namespaces: leader locks, the front-proxy configuration, tokens that
// new nodes join with.
func namespaced() Policy {
	const system, public = metav1.NamespaceSystem, metav1.NamespacePublic
	lock := func(component string) rbacv1.Role {
		return role(system, "system::leader-locking-"+component,
			on("coordination.k8s.io", "leases", "create get list update watch"),
			on("coordination.k8s.io", "leasecandidates", "create get list update watch"))
	}
	return Policy{
		Roles: []rbacv1.Role{
			role(system, "extension-apiserver-authentication-reader",
				named("extension-apiserver-authentication", on("", "configmaps", read))),
			role(system, "system:controller:bootstrap-signer", on("", "secrets", read)),
			role(system, "system:controller:cloud-provider", on("", "configmaps", "create get list watch")),
			role(system, "system:controller:token-cleaner", on("", "secrets", "delete get list watch"), events()),
			lock("kube-controller-manager"),
			lock("kube-scheduler"),
			role(public, "system:controller:bootstrap-signer",
				on("", "configmaps", read),
				named("cluster-info", on("", "configmaps", "update")),
				events()),
		},
		RoleBindings: []rbacv1.RoleBinding{
			binding(system, "system::extension-apiserver-authentication-reader", "extension-apiserver-authentication-reader",
				user("system:kube-controller-manager"), user("system:kube-scheduler")),
			binding(system, "system::leader-locking-kube-controller-manager", "system::leader-locking-kube-controller-manager",
				user("system:kube-controller-manager"), account("kube-controller-manager"), account("leader-election-controller")),
			binding(system, "system::leader-locking-kube-scheduler", "system::leader-locking-kube-scheduler",
				user("system:kube-scheduler"), account("kube-scheduler")),
			binding(system, "system:controller:bootstrap-signer", "system:controller:bootstrap-signer", account("bootstrap-signer")),
			binding(system, "system:controller:cloud-provider", "system:controller:cloud-provider", account("cloud-provider")),
			binding(system, "system:controller:token-cleaner", "system:controller:token-cleaner", account("token-cleaner")),
			binding(public, "system:controller:bootstrap-signer", "system:controller:bootstrap-signer", account("bootstrap-signer")),
		},
	}
}
