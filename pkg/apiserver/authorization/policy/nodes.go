// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import rbacv1 "k8s.io/api/rbac/v1"

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
			clusterBinding("system:node-proxier", "system:node-proxier", user("system:kube-proxy")),
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
			// The provisioner of the default storage class, on each node. Unlike upstream's role for external provisioners
			// it has finalizers to remove, and no claims to change.
			clusterRole("system:minik8s:local-path",
				on("", "persistentvolumes", "create delete get list update watch"),
				on("", "persistentvolumeclaims", read),
				on("storage.k8s.io", "storageclasses", "get"),
				events()),
		},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{
			clusterBinding("system:minik8s:local-path", "system:minik8s:local-path", user("system:minik8s:local-path")),
			// Proxy and DNS share one cache, and so one identity.
			clusterBinding("system:coredns", "system:coredns", user("system:kube-proxy")),
			clusterBinding("system:controller-monitoring", "system:controller-monitoring", group("system:monitoring")),
			// The API server's own client certificate for kubelets, which ask it back.
			clusterBinding("system:kubelet-api-admin", "system:kubelet-api-admin", user("kube-apiserver-kubelet-client")),
		},
	}
}
