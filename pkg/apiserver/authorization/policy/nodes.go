// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Users that the policy has roles for.
const (
	// ProxyUser is kube-proxy, who reads Services, EndpointSlices and Nodes.
	ProxyUser = "system:kube-proxy"
	// ServicesUser is the service proxy and DNS of the control plane's own node.
	ServicesUser = "system:minik8s:services"
	// ServingApproverUser approves certificates of joined nodes, and reads where these are in kube-system.
	ServingApproverUser = "system:minik8s:serving-approver"
	// JoinedNodes is the ConfigMap in kube-system of the addresses of nodes that have joined, by name.
	JoinedNodes = "minik8s-joined-nodes"
	// KubeletClientUser is the API server towards kubelets.
	KubeletClientUser = "kube-apiserver-kubelet-client"
)

// NodeRules are what a kubelet does. The Node authorizer narrows them to the objects of the kubelet's own pods; the role
// system:node, which nobody is bound to, grants them without that.
func NodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		on("authentication.k8s.io", "tokenreviews", "create"),
		on("authorization.k8s.io", "subjectaccessreviews localsubjectaccessreviews", "create"),
		on("", "services", read),
		on("", "nodes", "create get list watch"),
		on("", "nodes/status", "patch update"),
		on("", "nodes", "patch update"),
		events(),
		on("", "pods", read),
		on("", "pods", "create delete"),
		on("", "pods/status", "patch update"),
		on("", "pods/eviction", "create"),
		on("", "configmaps secrets", read),
		on("", "persistentvolumeclaims persistentvolumes", "get"),
		on("", "endpoints", "get"),
		on("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
		on("coordination.k8s.io", "leases", "create delete get patch update"),
		on("storage.k8s.io", "volumeattachments", "get"),
		on("", "serviceaccounts/token", "create"),
		on("", "persistentvolumeclaims/status", "get patch update"),
		on("storage.k8s.io", "csidrivers", read),
		on("storage.k8s.io", "csinodes", "create delete get patch update"),
		on("node.k8s.io", "runtimeclasses", read),
		on("resource.k8s.io", "resourceclaims", "get"),
		on("resource.k8s.io", "resourceslices", "deletecollection"), // the Node authorizer permits more
		on("certificates.k8s.io", "clustertrustbundles", read),
		on("", "serviceaccounts", "get"),
		on("certificates.k8s.io", "podcertificaterequests", "create get list watch"),
	}
}

// nodes are the roles of what runs on nodes, and of what calls the API of kubelets.
func nodes() Policy {
	return Policy{
		ClusterRoles: []rbacv1.ClusterRole{
			clusterRole("system:node", NodeRules()...),
			clusterRole("system:node-proxier",
				on("", "services endpoints", "list watch"),
				on("", "nodes", read),
				events(),
				on("networking.k8s.io", "servicecidrs", "list watch"),
				on("discovery.k8s.io", "endpointslices", "list watch")),
			clusterRole("system:node-problem-detector",
				on("", "nodes", "get"),
				on("", "nodes/status", "patch"),
				events()),
			clusterRole("system:node-bootstrapper",
				on("certificates.k8s.io", "certificatesigningrequests", "create get list watch")),
			clusterRole("system:kubelet-api-admin",
				on("", "nodes", read),
				on("", "nodes", "proxy"),
				on("", "nodes/log nodes/metrics nodes/proxy nodes/stats", "*"),
				on("", "nodes/configz nodes/healthz nodes/pods", "*")),
		},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{
			clusterBinding("system:node", "system:node"),
			clusterBinding("system:node-proxier", "system:node-proxier", user(ProxyUser)),
		},
	}
}

// AddOns is what installers of upstream add to the default policy, and minik8s, which installs itself, for its own parts.
func AddOns() Policy {
	return Policy{
		ClusterRoles: []rbacv1.ClusterRole{
			clusterRole("system:coredns",
				on("", "endpoints services pods namespaces", "list watch"),
				on("discovery.k8s.io", "endpointslices", "list watch")),
			// Upstream's kube-controller-manager lets the same group get its /metrics.
			clusterRole("system:controller-monitoring", paths("/metrics/controllers")),
			// The provisioner of the default storage class. Unlike upstream's role for external provisioners it has finalizers
			// to remove, no claims to change, and nodes to speak to. It must not leave the control plane: who writes volumes
			// and the annotations of nodes can read Secrets and run pods.
			clusterRole("system:minik8s:local-path",
				on("", "persistentvolumes", "create delete get list update watch"),
				on("", "persistentvolumeclaims", read),
				on("", "nodes", "get list patch watch"),
				on("storage.k8s.io", "storageclasses", "get"),
				events()),
			// What approves the certificates by which joined nodes serve.
			clusterRole("system:minik8s:serving-approver",
				on("certificates.k8s.io", "certificatesigningrequests", "get list watch"),
				on("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
				named("kubernetes.io/kubelet-serving", on("certificates.k8s.io", "signers", "approve"))),
			// A node that has joined runs its proxy by its own identity.
			clusterRole("system:minik8s:node-proxier", named(ProxyUser, on("", "users", "impersonate"))),
		},
		Roles: []rbacv1.Role{
			role(metav1.NamespaceSystem, "system:minik8s:joined-nodes", named(JoinedNodes, on("", "configmaps", "get"))),
		},
		RoleBindings: []rbacv1.RoleBinding{
			binding(metav1.NamespaceSystem, "system:minik8s:joined-nodes", "system:minik8s:joined-nodes", user(ServingApproverUser)),
		},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{
			clusterBinding("system:minik8s:local-path", "system:minik8s:local-path", user("system:minik8s:local-path")),
			// Proxy and DNS of the control plane's node share one cache, and so one identity.
			clusterBinding("system:coredns", "system:coredns", user(ServicesUser)),
			clusterBinding("system:minik8s:services", "system:node-proxier", user(ServicesUser)),
			clusterBinding("system:minik8s:serving-approver", "system:minik8s:serving-approver", user(ServingApproverUser)),
			// As installers of upstream have it (kubeadm:node-autoapprove-certificate-rotation).
			clusterBinding("system:minik8s:node-renewal", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", group("system:nodes")),
			clusterBinding("system:minik8s:node-proxier", "system:minik8s:node-proxier", group("system:nodes")),
			clusterBinding("system:controller-monitoring", "system:controller-monitoring", group("system:monitoring")),
			// The API server's own client certificate for kubelets, which ask it back.
			clusterBinding("system:kubelet-api-admin", "system:kubelet-api-admin", user(KubeletClientUser)),
		},
	}
}
