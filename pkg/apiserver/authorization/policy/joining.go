// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// JoiningGroup is what bootstrap tokens make of a machine that joins, besides system:bootstrappers.
	JoiningGroup = "system:bootstrappers:minik8s:default-node-token"
	// JoinApproverUser registers machines that join by a token and approves their first certificate.
	JoinApproverUser = "system:minik8s:join-approver"
)

// joining are the roles by which machines join with bootstrap tokens. Installers of upstream let such machines have the certificate
// of any node (kubeadm:node-autoapprove-bootstrap), also of one that is there; here the approver looks whose name it is.
func joining() Policy {
	const system, public, info = metav1.NamespaceSystem, metav1.NamespacePublic, "cluster-info"
	return Policy{
		ClusterRoles: []rbacv1.ClusterRole{
			clusterRole("system:minik8s:join-approver",
				on("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
				named("kubernetes.io/kube-apiserver-client-kubelet", on("certificates.k8s.io", "signers", "approve")),
				on("", "nodes", "create list")),
		},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{
			clusterBinding("system:minik8s:join-approver", "system:minik8s:join-approver", user(JoinApproverUser)),
			clusterBinding("system:minik8s:node-bootstrapper", "system:node-bootstrapper", group(JoiningGroup)),
		},
		Roles: []rbacv1.Role{
			role(system, "system:minik8s:join-approver", named(JoinedNodes, on("", "configmaps", "get update"))),
			role(public, "system:minik8s:cluster-info", named(info, on("", "configmaps", "get"))),
		},
		RoleBindings: []rbacv1.RoleBinding{
			binding(system, "system:minik8s:join-approver", "system:minik8s:join-approver", user(JoinApproverUser)),
			binding(public, "system:minik8s:cluster-info", "system:minik8s:cluster-info", user("system:anonymous")),
		},
	}
}
