// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/apis/feature"
)

const aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

// users are the roles of people: cluster-admin, admin, edit and view, what everybody may ask, and what monitoring reads.
func users() Policy {
	return Policy{
		ClusterRoles: []rbacv1.ClusterRole{
			clusterRole("cluster-admin",
				on("*", "*", "*"),
				rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}}),
			aggregated("admin", ""),
			aggregated("edit", "admin"),
			aggregated("view", "edit"),
			part("admin", administration()...),
			part("edit", editing()...),
			part("view", viewing()...),

			clusterRole("system:discovery",
				paths("/livez /readyz /healthz /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*")),
			clusterRole("system:public-info-viewer", paths("/livez /readyz /healthz /version /version/")),
			clusterRole("system:basic-user",
				on("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", "create"),
				on("authentication.k8s.io", "selfsubjectreviews", "create")),
			clusterRole("system:monitoring",
				paths("/metrics /metrics/slis /livez /readyz /healthz /livez/* /readyz/* /healthz/* /flagz /statusz"),
				on("", "nodes/metrics", "get")),
			clusterRole("system:service-account-issuer-discovery",
				paths("/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/")),
		},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{
			clusterBinding("cluster-admin", "cluster-admin", group("system:masters")),
			clusterBinding("system:monitoring", "system:monitoring", group("system:monitoring")),
			clusterBinding("system:discovery", "system:discovery", group("system:authenticated")),
			clusterBinding("system:basic-user", "system:basic-user", group("system:authenticated")),
			clusterBinding("system:public-info-viewer", "system:public-info-viewer", group("system:authenticated"), group("system:unauthenticated")),
			clusterBinding("system:service-account-issuer-discovery", "system:service-account-issuer-discovery", group("system:serviceaccounts")),
		},
	}
}

// aggregated is a role whose rules the aggregation controller collects from all roles with its label; it is itself part
// of the next greater one.
func aggregated(name, greater string) rbacv1.ClusterRole {
	r := clusterRole(name)
	if greater != "" {
		r.Labels[aggregateTo+greater] = "true"
	}
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{aggregateTo + name: "true"}},
	}}
	return r
}

func part(of string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
	return partOf(of, "system:aggregate-to-"+of, rules...)
}

// partOf is a role whose rules are collected into another one, and into all that are greater.
func partOf(of, name string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
	r := clusterRole(name, rules...)
	r.Labels[aggregateTo+of] = "true"
	return r
}

func administration() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		on("authorization.k8s.io", "localsubjectaccessreviews", "create"),
		on(rbacv1.GroupName, "roles rolebindings", readWrite),
	}
}

// editing leaves endpoints out: who writes them can send traffic to addresses that the network keeps from them
// (CVE-2021-25740).
func editing() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		on("", "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy", read),
		on("", "serviceaccounts", "impersonate"),
		on("", "pods pods/attach pods/proxy pods/exec pods/portforward", write),
		on("", "pods/eviction", "create"),
		on("", "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy", write),
		on("", "serviceaccounts/token", "create"),
		onEvents(write),
		on("apps", "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale", write),
		on("autoscaling", "horizontalpodautoscalers", write),
		on("batch", "cronjobs jobs", write),
		on("extensions", "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale", write),
		on("policy", "poddisruptionbudgets", write),
		on("networking.k8s.io", "ingresses networkpolicies", write),
		on("coordination.k8s.io", "leases", readWrite),
		on("resource.k8s.io", "resourceclaims resourceclaimtemplates", write),
	}, gated(feature.GenericWorkload, on("scheduling.k8s.io", "podgroups workloads", write))...)
}

// viewing leaves secrets out: among them are the tokens of greater accounts.
func viewing() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		on("", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status", read),
		on("", "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status", read),
		on("", "namespaces", read),
		onEvents(read),
		on("discovery.k8s.io", "endpointslices", read),
		on("apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status", read),
		on("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", read),
		on("batch", "cronjobs cronjobs/status jobs jobs/status", read),
		on("extensions", "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale", read),
		on("policy", "poddisruptionbudgets poddisruptionbudgets/status", read),
		on("networking.k8s.io", "ingresses ingresses/status networkpolicies", read),
		on("resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates", read),
	}, gated(feature.GenericWorkload, on("scheduling.k8s.io", "podgroups podgroups/status workloads", read))...)
}
