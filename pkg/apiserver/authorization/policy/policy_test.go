// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-helpers/auth/rbac/validation"

	"minik8s.io/minik8s/pkg/apis/feature"
)

// TestConsistent checks what makes the policy a whole: unique names, rules that say something, bindings to roles that
// exist, and nobody missing.
func TestConsistent(t *testing.T) {
	p := Default().With(AddOns())
	seen := map[string]bool{}
	once := func(kind string, m metav1.ObjectMeta) {
		key := kind + " " + m.Namespace + "/" + m.Name
		if seen[key] {
			t.Errorf("%s occurs twice", key)
		}
		seen[key] = true
		if m.Annotations[rbacv1.AutoUpdateAnnotationKey] != "true" || m.Labels["kubernetes.io/bootstrapping"] != "rbac-defaults" {
			t.Errorf("%s is not marked as part of the policy", key)
		}
	}
	for _, r := range p.ClusterRoles {
		once("ClusterRole", r.ObjectMeta)
		checkRules(t, r.Name, r.Rules)
		if len(r.Rules) == 0 && r.AggregationRule == nil {
			t.Errorf("ClusterRole %s permits nothing", r.Name)
		}
	}
	for _, r := range p.Roles {
		once("Role", r.ObjectMeta)
		checkRules(t, r.Name, r.Rules)
	}
	for _, b := range p.ClusterRoleBindings {
		once("ClusterRoleBinding", b.ObjectMeta)
		if !seen["ClusterRole /"+b.RoleRef.Name] {
			t.Errorf("%s binds ClusterRole %q, which does not exist", b.Name, b.RoleRef.Name)
		}
		if len(b.Subjects) == 0 && b.Name != "system:node" {
			t.Errorf("%s binds nobody", b.Name)
		}
	}
	for _, b := range p.RoleBindings {
		once("RoleBinding", b.ObjectMeta)
		if !seen["Role "+b.Namespace+"/"+b.RoleRef.Name] {
			t.Errorf("%s/%s binds Role %q, which does not exist", b.Namespace, b.Name, b.RoleRef.Name)
		}
	}
}

func checkRules(t *testing.T, name string, rules []rbacv1.PolicyRule) {
	t.Helper()
	for i, r := range rules {
		resource, path := len(r.APIGroups) > 0 && len(r.Resources) > 0, len(r.NonResourceURLs) > 0
		if len(r.Verbs) == 0 || resource == path {
			t.Errorf("rule %d of %s is neither about resources nor about paths: %v", i, name, r)
		}
		if slices.Contains(r.Resources, "") || slices.Contains(r.Verbs, "") {
			t.Errorf("rule %d of %s has an empty word: %v", i, name, r)
		}
	}
}

// collect does what the aggregation controller does.
func collect(p Policy, name string, depth int) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, r := range p.ClusterRoles {
		if r.Name != name {
			continue
		}
		all = append(all, r.Rules...)
		if r.AggregationRule == nil || depth == 0 {
			continue
		}
		for _, s := range r.AggregationRule.ClusterRoleSelectors {
			for _, part := range p.ClusterRoles {
				if labels.SelectorFromSet(s.MatchLabels).Matches(labels.Set(part.Labels)) {
					all = append(all, collect(p, part.Name, depth-1)...)
				}
			}
		}
	}
	return all
}

// TestCovers checks who holds at least, or never, what others hold; it is what privilege escalation checks compare.
func TestCovers(t *testing.T) {
	p := Default()
	role := func(name string) []rbacv1.PolicyRule { return collect(p, name, 3) }
	for _, tc := range []struct {
		name           string
		owner, servant []rbacv1.PolicyRule
		want           bool
	}{
		{"admin holds edit", role("admin"), role("edit"), true},
		{"edit holds view", role("edit"), role("view"), true},
		{"view does not hold edit", role("view"), role("edit"), false},
		{"edit does not hold admin", role("edit"), role("admin"), false},
		{"view reads no secrets", role("view"), []rbacv1.PolicyRule{on("", "secrets", "get")}, false},
		{"edit writes no endpoints", role("edit"), []rbacv1.PolicyRule{on("", "endpoints", "update")}, false},
		{"admin writes no quota", role("admin"), []rbacv1.PolicyRule{on("", "resourcequotas", "update")}, false},
		{"cluster-admin holds the controller manager", role("cluster-admin"), role("system:kube-controller-manager"), true},
		{"controller manager lists anything", role("system:kube-controller-manager"), []rbacv1.PolicyRule{on("example.com", "widgets", "list watch")}, true},
		{"public info is part of discovery", role("system:discovery"), role("system:public-info-viewer"), true},
		{"node rules are the node role", role("system:node"), NodeRules(), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, missing := validation.Covers(tc.owner, tc.servant)
			if got != tc.want {
				t.Errorf("covers = %v, missing %v", got, missing)
			}
		})
	}
}

func writes(c *fake.Clientset) map[string]int {
	n := map[string]int{}
	for _, a := range c.Actions() {
		if a.GetVerb() != "list" {
			n[a.GetVerb()]++
		}
	}
	c.ClearActions()
	return n
}

func TestEnsure(t *testing.T) {
	ctx := context.Background()
	p := Default()
	total := len(p.ClusterRoles) + len(p.ClusterRoleBindings) + len(p.Roles) + len(p.RoleBindings)
	client := fake.NewClientset()
	if err := Ensure(ctx, client, Default()); err != nil {
		t.Fatal(err)
	}
	if w := writes(client); w["create"] != total || len(w) != 1 {
		t.Fatalf("writes on an empty cluster = %v, want %d creates", w, total)
	}
	if err := Ensure(ctx, client, Default()); err != nil {
		t.Fatal(err)
	}
	if w := writes(client); len(w) != 0 {
		t.Fatalf("writes on a complete cluster = %v, want none", w)
	}

	api := client.RbacV1()
	extra := on("example.com", "widgets", "get")
	mutate := func(name string, f func(*rbacv1.ClusterRole)) {
		t.Helper()
		r, err := api.ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f(r)
		if _, err := api.ClusterRoles().Update(ctx, r, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	mutate("system:kube-dns", func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{extra} })
	mutate("system:basic-user", func(r *rbacv1.ClusterRole) {
		r.Rules = nil
		r.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
	})
	mutate("view", func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{extra} }) // as the controller does
	b, err := api.ClusterRoleBindings().Get(ctx, "system:node-proxier", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.RoleRef.Name = "view"
	if _, err := api.ClusterRoleBindings().Update(ctx, b, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	writes(client)
	if err := Ensure(ctx, client, Default()); err != nil {
		t.Fatal(err)
	}
	if w := writes(client); w["update"] != 1 || w["delete"] != 1 || w["create"] != 1 || len(w) != 3 {
		t.Errorf("writes = %v, want one update of a role and one recreated binding", w)
	}
	r, err := api.ClusterRoles().Get(ctx, "system:kube-dns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ok, missing := validation.Covers(r.Rules, append(collect(p, "system:kube-dns", 0), extra)); !ok {
		t.Errorf("role lacks %v after reconciliation", missing)
	}
	if r, err = api.ClusterRoles().Get(ctx, "system:basic-user", metav1.GetOptions{}); err != nil || len(r.Rules) != 0 {
		t.Errorf("protected role has rules %v (%v)", r.Rules, err)
	}
	if b, err = api.ClusterRoleBindings().Get(ctx, "system:node-proxier", metav1.GetOptions{}); err != nil || b.RoleRef.Name != "system:node-proxier" {
		t.Errorf("binding refers to %q (%v)", b.RoleRef.Name, err)
	}
}

// TestEnsure_Split takes discovery from a subject before the cluster has a binding of public info.
func TestEnsure_Split(t *testing.T) {
	viewers, authenticated := group("viewers"), group("system:authenticated")
	for _, tt := range []struct {
		autoupdate string
		want       []rbacv1.Subject
	}{
		{"false", []rbacv1.Subject{viewers}},
		{"true", []rbacv1.Subject{viewers, authenticated, group("system:unauthenticated")}},
	} {
		t.Run("autoupdate "+tt.autoupdate, func(t *testing.T) {
			discovery := clusterBinding("system:discovery", "system:discovery", viewers)
			discovery.Labels = map[string]string{"team": "a"}
			discovery.Annotations = map[string]string{rbacv1.AutoUpdateAnnotationKey: tt.autoupdate}
			client := fake.NewClientset(&discovery)
			if err := Ensure(t.Context(), client, Default()); err != nil {
				t.Fatal(err)
			}
			got, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), "system:public-info-viewer", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Subjects); diff != "" {
				t.Errorf("subjects (-want +got):\n%s", diff)
			}
			if got.Labels["team"] != "a" || got.Annotations[rbacv1.AutoUpdateAnnotationKey] != tt.autoupdate || got.RoleRef.Name != got.Name {
				t.Errorf("got labels %v, annotations %v, role %q", got.Labels, got.Annotations, got.RoleRef.Name)
			}
		})
	}
}

func TestEnsureReportsErrors(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "roles", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, context.Canceled })
	if err := Ensure(context.Background(), client, Default()); err == nil {
		t.Error("no error although roles cannot be listed")
	}
}

// TestJoinedNodes: whoever breaks into a machine that has joined has its node's identity, and what that may act as. Neither may
// write anything but events, nor read what is not about Services, nodes and the selection of pods; the Node authorizer decides on the rest.
func TestJoinedNodes(t *testing.T) {
	t.Parallel()
	p := Default().With(AddOns())
	for _, tc := range []struct {
		name, kind, subject string
		want                []rbacv1.PolicyRule
	}{
		{"node", rbacv1.GroupKind, "system:nodes", []rbacv1.PolicyRule{
			named(ProxyUser+" "+ServicesUser+" "+NetworkPolicyUser, on("", "users", "impersonate")), on("certificates.k8s.io", "certificatesigningrequests/selfnodeclient", "create"),
			paths("/minik8s/images"),
		}},
		{"what it acts as", rbacv1.UserKind, ProxyUser, []rbacv1.PolicyRule{
			on("", "services endpoints", "list watch"), on("", "nodes", read), events(),
			on("networking.k8s.io", "servicecidrs", "list watch"), on("discovery.k8s.io", "endpointslices", "list watch"),
		}},
		{"what its proxy and DNS act as", rbacv1.UserKind, ServicesUser, []rbacv1.PolicyRule{
			on("", "services endpoints pods namespaces", "list watch"), on("", "nodes", read), events(),
			on("networking.k8s.io", "servicecidrs", "list watch"), on("discovery.k8s.io", "endpointslices", "list watch"),
			on("networking.minik8s.io", "dns", "list watch"),
			named("dns.networking.minik8s.io", on("apiextensions.k8s.io", "customresourcedefinitions", "list watch")),
		}},
		{"what it enforces policies as", rbacv1.UserKind, NetworkPolicyUser, []rbacv1.PolicyRule{
			on("networking.k8s.io", "networkpolicies", "list watch"), on("", "pods namespaces nodes", "list watch"),
			on("policy.networking.k8s.io", "clusternetworkpolicies", "list watch"),
			named("clusternetworkpolicies.policy.networking.k8s.io", on("apiextensions.k8s.io", "customresourcedefinitions", "list watch")),
		}},
		{"what measures it", rbacv1.UserKind, MetricsUser, []rbacv1.PolicyRule{on("", "nodes", "list"), on("", "nodes/metrics", "get")}},
		{"API server towards kubelets", rbacv1.UserKind, KubeletClientUser, []rbacv1.PolicyRule{
			on("", "nodes", read), on("", "nodes", "proxy"),
			on("", "nodes/log nodes/metrics nodes/proxy nodes/stats", "*"), on("", "nodes/configz nodes/healthz nodes/pods", "*"),
			on("", "nodes/statusz", "get"),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []rbacv1.PolicyRule
			for _, b := range p.ClusterRoleBindings {
				if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Kind == tc.kind && s.Name == tc.subject }) {
					continue
				}
				for _, r := range p.ClusterRoles {
					if r.Name == b.RoleRef.Name {
						got = append(got, r.Rules...)
					}
				}
			}
			if ok, more := validation.Covers(tc.want, got); !ok {
				t.Errorf("it may also %v", more)
			}
			if ok, less := validation.Covers(got, tc.want); !ok {
				t.Errorf("it may not %v", less)
			}
		})
	}
}

// TestGroups checks who may do what with groups of pods, which nobody may while the gate is off.
func TestGroups(t *testing.T) {
	const api = "scheduling.k8s.io"
	for _, tc := range []struct {
		name, role string
		rule       rbacv1.PolicyRule
		want       bool
	}{
		{"users see them", "view", on(api, "podgroups podgroups/status workloads", read), true},
		{"users who only see do not write", "view", on(api, "workloads", "create"), false},
		{"users write them", "edit", on(api, "podgroups workloads", write), true},
		{"users do not write their status", "admin", on(api, "podgroups/status", "update"), false},
		{"the scheduler sees groups", "system:kube-scheduler", on(api, "podgroups", read), true},
		{"the scheduler writes their status", "system:kube-scheduler", on(api, "podgroups/status", "patch update"), true},
		{"the scheduler writes no groups", "system:kube-scheduler", on(api, "podgroups", "update"), false},
		{"their controller lets groups go", "system:controller:podgroup-protection-controller", on(api, "podgroups", "get list update watch"), true},
	} {
		for _, gate := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, gate %t", tc.name, gate), func(t *testing.T) {
				featuregatetesting.SetFeatureGateDuringTest(t, feature.Gates, feature.GenericWorkload, gate)
				if got, missing := validation.Covers(collect(Default(), tc.role, 3), []rbacv1.PolicyRule{tc.rule}); got != (tc.want && gate) {
					t.Errorf("covers = %t, missing %v", got, missing)
				}
			})
		}
	}
}
