// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"minik8s.io/minik8s/pkg/apis/feature"
)

// components are the roles of the control plane and of well-known add-ons.
func components() Policy {
	return Policy{
		ClusterRoles: []rbacv1.ClusterRole{
			clusterRole("system:kube-controller-manager",
				events(),
				on("coordination.k8s.io", "leases", "create"),
				named("kube-controller-manager", on("coordination.k8s.io", "leases", "get update")),
				on("", "secrets serviceaccounts", "create"),
				on("", "secrets", "delete"),
				on("", "configmaps namespaces secrets serviceaccounts", "get"),
				on("", "secrets serviceaccounts", "update"),
				on("authentication.k8s.io", "tokenreviews", "create"),
				on("authorization.k8s.io", "subjectaccessreviews", "create"),
				// One cache serves all controllers, and garbage collection and quota look at every kind.
				on("*", "*", "list watch"),
				on("", "serviceaccounts/token", "create")),
			clusterRole("system:kube-scheduler", scheduling()...),
			clusterRole("system:volume-scheduler",
				on("", "persistentvolumes", "get list patch update watch"),
				on("storage.k8s.io", "storageclasses", read),
				on("", "persistentvolumeclaims", "get list patch update watch")),
			clusterRole("system:kube-dns", on("", "endpoints services", "list watch")),
			clusterRole("system:kube-aggregator", on("", "endpoints services", read)),
			clusterRole("system:auth-delegator",
				on("authentication.k8s.io", "tokenreviews", "create"),
				on("authorization.k8s.io", "subjectaccessreviews", "create")),
			clusterRole("system:persistent-volume-provisioner",
				on("", "persistentvolumes", "create delete get list watch"),
				on("", "persistentvolumeclaims", "get list update watch"),
				on("storage.k8s.io", "storageclasses", read),
				on("", "events", "watch"),
				events()),
			clusterRole("system:heapster",
				on("", "events namespaces nodes pods", read),
				on("extensions", "deployments", read)),
		},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{
			clusterBinding("system:kube-controller-manager", "system:kube-controller-manager", user("system:kube-controller-manager")),
			clusterBinding("system:kube-scheduler", "system:kube-scheduler", user("system:kube-scheduler")),
			clusterBinding("system:volume-scheduler", "system:volume-scheduler", user("system:kube-scheduler")),
			clusterBinding("system:kube-dns", "system:kube-dns", account("kube-dns")),
		},
	}
}

// scheduling is what the scheduler may do.
func scheduling() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		events(),
		on("coordination.k8s.io", "leases", "create"),
		named("kube-scheduler", on("coordination.k8s.io", "leases", "get list update watch")),
		on("coordination.k8s.io", "leasecandidates", readWrite),
		on("", "nodes", read),
		on("", "pods", "delete get list watch"),
		on("", "bindings pods/binding", "create"),
		on("", "pods/status", "patch update"),
		on("", "replicationcontrollers services", read),
		on("apps extensions", "replicasets", read),
		on("apps", "statefulsets", read),
		on("policy", "poddisruptionbudgets", read),
		on("", "persistentvolumeclaims persistentvolumes", read),
		on("authentication.k8s.io", "tokenreviews", "create"),
		on("authorization.k8s.io", "subjectaccessreviews", "create"),
		on("storage.k8s.io", "csinodes", read),
		on("storage.k8s.io", "volumeattachments", read),
		on("", "namespaces", read),
		on("storage.k8s.io", "csidrivers", read),
		on("storage.k8s.io", "csistoragecapacities", read),
		on("resource.k8s.io", "deviceclasses", read),
		on("resource.k8s.io", "resourceclaims", "get list patch update watch"),
		on("resource.k8s.io", "resourceclaims/status", "get list patch update watch"),
		on("", "pods/finalizers", "update"),
		on("resource.k8s.io", "resourceslices", read),
		on("resource.k8s.io", "resourceclaims", "create delete"),
		on("resource.k8s.io", "devicetaintrules", read),
		on("resource.k8s.io", "resourceclaims/binding", "patch update"),
	}, gated(feature.GenericWorkload,
		on("scheduling.k8s.io", "podgroups", read),
		on("scheduling.k8s.io", "podgroups/status", "patch update"))...)
}

// certificates are the roles of the certificates API: who may ask for what kind, who may approve it, and that every
// ServiceAccount may read trust bundles.
func certificates() Policy {
	const api, bundles = "certificates.k8s.io", "system:cluster-trust-bundle-discovery"
	approver := func(signer string) rbacv1.ClusterRole {
		return clusterRole("system:certificates.k8s.io:"+signer+"-approver", named("kubernetes.io/"+signer, on(api, "signers", "approve")))
	}
	return Policy{ClusterRoles: []rbacv1.ClusterRole{
		clusterRole("system:certificates.k8s.io:certificatesigningrequests:nodeclient", on(api, "certificatesigningrequests/nodeclient", "create")),
		clusterRole("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", on(api, "certificatesigningrequests/selfnodeclient", "create")),
		approver("legacy-unknown"),
		approver("kubelet-serving"),
		approver("kube-apiserver-client"),
		approver("kube-apiserver-client-kubelet"),
		clusterRole(bundles, on(api, "clustertrustbundles", read)),
	}, ClusterRoleBindings: []rbacv1.ClusterRoleBinding{
		clusterBinding(bundles, bundles, group("system:serviceaccounts")),
	}}
}
