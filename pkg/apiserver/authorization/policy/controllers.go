// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"minik8s.io/minik8s/pkg/apis/feature"
)

// controller is what the ServiceAccount of a controller in kube-system may do.
type controller struct {
	account string
	rules   []rbacv1.PolicyRule
}

// controllers gives each controller a role system:controller:<account> of its own, so that one that is taken over, or
// wrong, does no more harm than its task allows.
func controllers() Policy {
	var p Policy
	for _, c := range slices.Concat(workloadControllers(), networkControllers(), storageControllers(), clusterControllers(), gangControllers()) {
		name := "system:controller:" + c.account
		p.ClusterRoles = append(p.ClusterRoles, clusterRole(name, c.rules...))
		p.ClusterRoleBindings = append(p.ClusterRoleBindings, clusterBinding(name, name, account(c.account)))
	}
	return p
}

func rules(r ...rbacv1.PolicyRule) []rbacv1.PolicyRule { return r }

// workloadControllers make and remove pods.
func workloadControllers() []controller {
	return []controller{
		{"cronjob-controller", rules(
			on("batch", "cronjobs", "get list update watch"),
			on("batch", "jobs", "create delete get list patch update watch"),
			on("batch", "cronjobs/status", "update"),
			on("batch", "cronjobs/finalizers", "update"),
			on("", "pods", "delete list watch"),
			events())},
		{"daemon-set-controller", rules(
			on("apps extensions", "daemonsets", read),
			on("apps extensions", "daemonsets/status", "update"),
			on("apps extensions", "daemonsets/finalizers", "update"),
			on("", "nodes", "list watch"),
			on("", "pods", "create delete list patch watch"),
			on("", "pods/binding", "create"),
			on("apps", "controllerrevisions", "create delete get list patch update watch"),
			events())},
		{"deployment-controller", rules(
			on("apps extensions", "deployments", "get list update watch"),
			on("apps extensions", "deployments/status", "update"),
			on("apps extensions", "deployments/finalizers", "update"),
			on("apps extensions", "replicasets", "create delete get list patch update watch"),
			on("", "pods", "get list update watch"),
			events())},
		{"disruption-controller", rules(
			on("apps extensions", "deployments", read),
			on("apps extensions", "replicasets", read),
			on("", "replicationcontrollers", read),
			on("policy", "poddisruptionbudgets", read),
			on("apps", "statefulsets", read),
			on("policy", "poddisruptionbudgets/status", "update"),
			on("", "pods/status", "patch update"),
			on("*", "*/scale", "get"),
			events())},
		{"horizontal-pod-autoscaler", rules(
			on("autoscaling", "horizontalpodautoscalers", read),
			on("autoscaling", "horizontalpodautoscalers/status", "update"),
			on("*", "*/scale", "get update"),
			on("", "pods", "list watch"),
			on("metrics.k8s.io", "pods", "list watch"),
			on("custom.metrics.k8s.io", "*", "get list watch"),
			on("external.metrics.k8s.io", "*", "get list watch"),
			events())},
		{"job-controller", rules(
			on("batch", "jobs", "get list patch update watch"),
			on("batch", "jobs/status", "update"),
			on("batch", "jobs/finalizers", "update"),
			on("", "pods", "create delete list patch watch"),
			events())},
		{"pod-garbage-collector", rules(
			on("", "pods", "delete list watch"),
			on("", "nodes", read),
			on("", "pods/status", "patch"))},
		{"replicaset-controller", rules(
			on("apps extensions", "replicasets", "get list update watch"),
			on("apps extensions", "replicasets/status", "update"),
			on("apps extensions", "replicasets/finalizers", "update"),
			on("", "pods", "create delete list patch watch"),
			events())},
		{"replication-controller", rules(
			on("", "replicationcontrollers", "get list update watch"),
			on("", "replicationcontrollers/status", "update"),
			on("", "replicationcontrollers/finalizers", "update"),
			on("", "pods", "create delete list patch watch"),
			events())},
		{"statefulset-controller", rules(
			on("", "pods", "list watch"),
			on("apps", "statefulsets", read),
			on("apps", "statefulsets/status", "update"),
			on("apps", "statefulsets/finalizers", "update"),
			on("", "pods", "create delete get patch update"),
			on("apps", "controllerrevisions", "create delete get list patch update watch"),
			on("", "persistentvolumeclaims", "create get list watch"),
			on("", "persistentvolumeclaims", "delete update"),
			on("", "pods/finalizers", "update"),
			events())},
		{"ttl-after-finished-controller", rules(
			on("batch", "jobs", "delete get list watch"),
			events())},
	}
}

// networkControllers keep Services and what is behind them.
func networkControllers() []controller {
	return []controller{
		{"endpoint-controller", rules(
			on("", "pods services", read),
			on("", "endpoints", "create delete get list update watch"),
			on("", "endpoints/restricted", "create"),
			events())},
		{"endpointslice-controller", rules(
			on("", "nodes pods services", read),
			on("", "services/finalizers", "update"),
			on("discovery.k8s.io", "endpointslices", "create delete get list update watch"),
			events())},
		{"endpointslicemirroring-controller", rules(
			on("", "endpoints services", read),
			on("", "services/finalizers", "update"),
			on("", "endpoints/finalizers", "update"),
			on("discovery.k8s.io", "endpointslices", "create delete get list update watch"),
			events())},
		{"route-controller", rules(
			on("", "nodes", "list watch"),
			on("", "nodes/status", "patch"),
			events())},
		{"service-cidrs-controller", rules(
			on("networking.k8s.io", "servicecidrs", "get list patch update watch"),
			on("networking.k8s.io", "servicecidrs/finalizers", "patch update"),
			on("networking.k8s.io", "servicecidrs/status", "patch update"),
			on("networking.k8s.io", "ipaddresses", read),
			events())},
		{"service-controller", rules(
			on("", "services", read),
			on("", "services/status", "patch update"),
			on("", "nodes", "list watch"),
			events())},
	}
}

// storageControllers keep volumes and claims.
func storageControllers() []controller {
	const storage, resource = "storage.k8s.io", "resource.k8s.io"
	return []controller{
		{"attachdetach-controller", rules(
			on("", "persistentvolumes persistentvolumeclaims", "list watch"),
			on("", "nodes", read),
			on("", "nodes/status", "patch update"),
			on("", "pods", "list watch"),
			events(),
			on(storage, "volumeattachments", "create delete get list watch"),
			on(storage, "csidrivers", read),
			on(storage, "csinodes", read))},
		{"ephemeral-volume-controller", rules(
			on("", "pods", read),
			on("", "pods/finalizers", "update"),
			on("", "persistentvolumeclaims", "create get list watch"),
			events())},
		{"expand-controller", rules(
			on("", "persistentvolumes", "get list patch update watch"),
			on("", "persistentvolumeclaims/status", "patch update"),
			on("", "persistentvolumeclaims", read),
			events())},
		{"persistent-volume-binder", rules(
			on("", "persistentvolumes", "create delete get list update watch"),
			on("", "persistentvolumes/status", "update"),
			on("", "persistentvolumeclaims", "get list update watch"),
			on("", "persistentvolumeclaims/status", "update"),
			on("", "pods", "create delete get list watch"),
			on(storage, "storageclasses", read),
			on("", "nodes", "list watch"),
			events(),
			on("", "events", "watch"))},
		{"pv-protection-controller", rules(
			on("", "persistentvolumes", "get list update watch"),
			events())},
		{"pvc-protection-controller", rules(
			on("", "persistentvolumeclaims", "get list update watch"),
			on("", "persistentvolumeclaims/status", "update"),
			on("", "pods", read),
			events())},
		{"volumeattributesclass-protection-controller", rules(
			on("", "persistentvolumeclaims", read),
			on("", "persistentvolumes", read),
			on(storage, "volumeattributesclasses", "get list update watch"),
			events())},
		{"selinux-warning-controller", rules(
			events(),
			on("", "persistentvolumes", read),
			on("", "persistentvolumeclaims", read),
			on("", "pods", read),
			on(storage, "csidrivers", read))},
		{"resource-claim-controller", rules(
			on("", "pods", read),
			on("", "pods/finalizers", "update"),
			on(resource, "resourceclaims", "create delete get list watch"),
			on(resource, "resourceclaims resourceclaims/status", "patch update"),
			on("", "pods/status", "patch update"),
			events(),
			on(resource, "resourceclaims/binding", "patch update"))},
		{"device-taint-eviction-controller", rules(
			on("", "pods", "delete get list watch"),
			on("", "pods/status", "patch update"),
			on(resource, "resourceclaims", read),
			on(resource, "resourceslices", read),
			on(resource, "deviceclasses", read),
			events(),
			on(resource, "devicetaintrules/status", "patch update"),
			on(resource, "devicetaintrules", read))},
	}
}

// gangControllers are about pods that are scheduled as groups.
func gangControllers() []controller {
	if !feature.Enabled(feature.GenericWorkload) {
		return nil
	}
	return []controller{
		{"podgroup-protection-controller", rules(
			on("scheduling.k8s.io", "podgroups", "get list update watch"),
			on("", "pods", read))},
	}
}

// clusterControllers keep nodes, namespaces, accounts, roles, certificates and everything that has an owner.
func clusterControllers() []controller {
	const certificates, admission = "certificates.k8s.io", "admissionregistration.k8s.io"
	return []controller{
		{"certificate-controller", rules(
			on(certificates, "certificatesigningrequests", "delete get list watch"),
			on(certificates, "certificatesigningrequests/approval certificatesigningrequests/status", "update"),
			named("kubernetes.io/kube-apiserver-client-kubelet", on(certificates, "signers", "approve")),
			named("kubernetes.io/legacy-unknown kubernetes.io/kubelet-serving kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet",
				on(certificates, "signers", "sign")),
			on("authorization.k8s.io", "subjectaccessreviews", "create"),
			events())},
		{"clusterrole-aggregation-controller", rules(
			// What it collects it need not hold itself.
			on(rbacv1.GroupName, "clusterroles", "escalate get list patch update watch"))},
		{"generic-garbage-collector", rules(
			on("*", "*", "delete get list patch update watch"),
			events())},
		{"kube-apiserver-serving-clustertrustbundle-publisher", rules(
			named("kubernetes.io/kube-apiserver-serving", on(certificates, "signers", "attest")),
			on(certificates, "clustertrustbundles", "create delete list update watch"),
			events())},
		{"legacy-service-account-token-cleaner", rules(
			named("kube-apiserver-legacy-service-account-token-tracking", on("", "configmaps", "get")),
			on("", "secrets", "delete patch"))},
		{"namespace-controller", rules(
			on("", "namespaces", "delete get list watch"),
			on("", "namespaces/finalize namespaces/status", "update"),
			on("*", "*", "delete deletecollection get list watch"))},
		{"node-controller", rules(
			on("", "nodes", "delete get list patch update watch"),
			on("", "nodes/status", "patch update"),
			on("", "pods/status", "patch update"),
			on("", "pods", "delete get list watch"),
			on("coordination.k8s.io", "leases", read),
			events())},
		{"podcertificaterequestcleaner", rules(
			on(certificates, "podcertificaterequests", "delete get list watch"))},
		{"resourcequota-controller", rules(
			on("*", "*", "list watch"),
			on("", "resourcequotas/status", "update"),
			events())},
		{"root-ca-cert-publisher", rules(
			on("", "configmaps", "create update"),
			events())},
		{"service-account-controller", rules(
			on("", "serviceaccounts", "create"),
			events())},
		{"storage-version-migrator-controller", rules(
			on("*", "*", "list patch"),
			on("apiextensions.k8s.io", "customresourcedefinitions", "get"),
			on("apiextensions.k8s.io", "customresourcedefinitions/status", "patch"),
			on("storagemigration.k8s.io", "storageversionmigrations/status", "update"))},
		{"ttl-controller", rules(
			on("", "nodes", "list patch update watch"),
			events())},
		{"validatingadmissionpolicy-status-controller", rules(
			on(admission, "validatingadmissionpolicies", read),
			on(admission, "validatingadmissionpolicies/status", "get patch update"),
			events())},
	}
}
