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
	// ServicesUser is the service proxy and DNS of a node.
	ServicesUser = "system:minik8s:services"
	// NetworkPolicyUser is what enforces NetworkPolicies and ClusterNetworkPolicies on a node, and reads these, Pods, Namespaces and Nodes.
	NetworkPolicyUser = "system:minik8s:network-policy"
	// MetricsUser asks kubelets what nodes and pods use.
	MetricsUser = "system:minik8s:metrics"
	// AddonsUser sees which add-ons are enabled. What each of them may do comes with it.
	AddonsUser = "system:minik8s:addons"
	// NetworkPolicyStatusUser writes statuses of ClusterNetworkPolicies. It must not leave the control plane.
	NetworkPolicyStatusUser = "system:minik8s:network-policy-status"
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
			clusterRole("system:scheduler-monitoring", paths("/metrics/scheduler /metrics/resources")),
			clusterRole("system:dns-monitoring", paths("/metrics/dns")),
			// Nodes on other machines may ask for images of the cluster's; which they get depends on their pods (package imagesource).
			clusterRole("system:minik8s:images", paths("/minik8s/images")),
			// The provisioner of the default storage class. Unlike upstream's role for external provisioners it has finalizers
			// to remove, no claims to change, and nodes to speak to. It must not leave the control plane: who writes volumes
			// and the annotations of nodes can read Secrets and run pods.
			clusterRole("system:minik8s:local-path",
				on("", "persistentvolumes", "create delete get list update watch"),
				on("", "persistentvolumeclaims", read),
				on("", "nodes", "get list patch watch"),
				on("storage.k8s.io", "storageclasses", "get"),
				events()),
			// What measures nodes and pods, and who may see that. A metrics-server that somebody installs and removes has roles of
			// other names.
			clusterRole("system:minik8s:metrics", on("", "nodes", "list"), on("", "nodes/metrics", "get")),
			partOf("view", "system:minik8s:metrics-reader", on("metrics.k8s.io", "pods nodes", read)),
			// Policies of the scheduler that upstream's has not: they compare what nodes use, and keep whose turn it is.
			clusterRole("system:minik8s:scheduler", on("metrics.k8s.io", "nodes pods", "list")),
			// What approves the certificates by which joined nodes serve.
			clusterRole("system:minik8s:serving-approver",
				on("certificates.k8s.io", "certificatesigningrequests", "get list watch"),
				on("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
				named("kubernetes.io/kubelet-serving", on("certificates.k8s.io", "signers", "approve"))),
			// A node that has joined runs its proxy and DNS by its own identity, and enforces network policies by it. Policies select by
			// the labels of any pod, and DNS may have to verify names of pods, so it sees all pods there are.
			clusterRole("system:minik8s:node-proxier", named(ProxyUser+" "+ServicesUser+" "+NetworkPolicyUser, on("", "users", "impersonate"))),
			clusterRole("system:minik8s:network-policy",
				on("networking.k8s.io", "networkpolicies", "list watch"),
				on("policy.networking.k8s.io", "clusternetworkpolicies", "list watch"),
				named("clusternetworkpolicies.policy.networking.k8s.io", on("apiextensions.k8s.io", "customresourcedefinitions", "list watch")),
				on("", "pods namespaces nodes", "list watch")),
			// What says of ClusterNetworkPolicies whether they are supported: the control plane alone, for joined nodes write nothing.
			clusterRole("system:minik8s:network-policy-status", on("policy.networking.k8s.io", "clusternetworkpolicies/status", "update")),
			// Cluster DNS answers for the hosts of Dns objects, where they are defined.
			clusterRole("system:minik8s:dns-names",
				on("networking.minik8s.io", "dns", "list watch"),
				named("dns.networking.minik8s.io", on("apiextensions.k8s.io", "customresourcedefinitions", "list watch"))),
			// What serves Ingresses, Gateways and Dns objects. Like every ingress controller it reads the Secrets that they may name; it asks
			// for those of type kubernetes.io/tls only, and for ConfigMaps only if a policy or a Gateway names certificates in one. It writes the
			// Services of Gateways, which are in any namespace, and have no name that a role could say.
			clusterRole("system:minik8s:router",
				on("networking.k8s.io", "ingresses ingressclasses", "list watch"),
				on("networking.k8s.io", "ingresses/status", "update"),
				on("networking.minik8s.io", "dns", "list watch"),
				on("networking.minik8s.io", "dns/status", "update"),
				on("", "secrets configmaps namespaces", "list watch"),
				on("", "services", "create delete list update watch"),
				on("discovery.k8s.io", "endpointslices", "create delete list update watch"),
				on("apiextensions.k8s.io", "customresourcedefinitions", "list watch"),
				on("gateway.networking.k8s.io", "backendtlspolicies gatewayclasses gateways grpcroutes httproutes listenersets referencegrants tcproutes tlsroutes udproutes", "list watch"),
				on("gateway.networking.k8s.io", "backendtlspolicies/status gatewayclasses/status gateways/status grpcroutes/status httproutes/status listenersets/status tcproutes/status tlsroutes/status udproutes/status", "update"),
				events()),
			// What upstream's role for kubelets lacks; installers of upstream give the API server all rights there.
			clusterRole("system:minik8s:kubelet-status", on("", "nodes/statusz", "get")),
			clusterRole("system:minik8s:addons", on("apiextensions.k8s.io", "customresourcedefinitions", "list watch")),
		},
		Roles: []rbacv1.Role{
			role(metav1.NamespaceSystem, "system:minik8s:scheduler", named("scheduler-rounds", on("", "configmaps", "create get patch"))),
			role(metav1.NamespaceSystem, "system:minik8s:joined-nodes", named(JoinedNodes, on("", "configmaps", "get"))),
			role(metav1.NamespaceSystem, "system:minik8s:dns", named("coredns", on("", "configmaps", read))),
		},
		RoleBindings: []rbacv1.RoleBinding{
			binding(metav1.NamespaceSystem, "system:minik8s:scheduler", "system:minik8s:scheduler", user("system:kube-scheduler")),
			binding(metav1.NamespaceSystem, "system:minik8s:joined-nodes", "system:minik8s:joined-nodes", user(ServingApproverUser)),
			binding(metav1.NamespaceSystem, "system:minik8s:dns", "system:minik8s:dns", user(ServicesUser)),
		},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{
			clusterBinding("system:minik8s:local-path", "system:minik8s:local-path", user("system:minik8s:local-path")),
			clusterBinding("system:minik8s:scheduler", "system:minik8s:scheduler", user("system:kube-scheduler")),
			clusterBinding("system:minik8s:metrics", "system:minik8s:metrics", user(MetricsUser)),
			// Proxy and DNS of a node share one cache, and so one identity.
			clusterBinding("system:coredns", "system:coredns", user(ServicesUser)),
			clusterBinding("system:minik8s:services", "system:node-proxier", user(ServicesUser)),
			clusterBinding("system:minik8s:dns-names", "system:minik8s:dns-names", user(ServicesUser)),
			clusterBinding("system:minik8s:network-policy", "system:minik8s:network-policy", user(NetworkPolicyUser)),
			clusterBinding("system:minik8s:network-policy-status", "system:minik8s:network-policy-status", user(NetworkPolicyStatusUser)),
			clusterBinding("system:minik8s:addons", "system:minik8s:addons", user(AddonsUser)),
			clusterBinding("system:minik8s:router", "system:minik8s:router", user("system:minik8s:router")),
			clusterBinding("system:minik8s:serving-approver", "system:minik8s:serving-approver", user(ServingApproverUser)),
			// As installers of upstream have it (kubeadm:node-autoapprove-certificate-rotation).
			clusterBinding("system:minik8s:node-renewal", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", group("system:nodes")),
			clusterBinding("system:minik8s:node-proxier", "system:minik8s:node-proxier", group("system:nodes")),
			clusterBinding("system:minik8s:images", "system:minik8s:images", group("system:nodes")),
			clusterBinding("system:controller-monitoring", "system:controller-monitoring", group("system:monitoring")),
			clusterBinding("system:scheduler-monitoring", "system:scheduler-monitoring", group("system:monitoring")),
			clusterBinding("system:dns-monitoring", "system:dns-monitoring", group("system:monitoring")),
			// The API server's own client certificate for kubelets, which ask it back.
			clusterBinding("system:kubelet-api-admin", "system:kubelet-api-admin", user(KubeletClientUser)),
			clusterBinding("system:minik8s:kubelet-status", "system:minik8s:kubelet-status", user(KubeletClientUser)),
		},
	}.With(joining())
}
