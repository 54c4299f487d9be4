// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

func TestBlock(t *testing.T) {
	for _, tt := range []struct {
		name, cidr string
		except     []string
		want       string
	}{
		{"all", "0.0.0.0/0", nil, "[{0.0.0.0 255.255.255.255}]"},
		{"all of IPv6", "::/0", nil, "[{:: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff}]"},
		{"one", "10.0.0.1/32", nil, "[{10.0.0.1 10.0.0.1}]"},
		{"bits beyond the prefix", "10.0.0.1/24", nil, "[{10.0.0.0 10.0.0.255}]"},
		{"leading zeros", "010.000.0.0/24", nil, "[{10.0.0.0 10.0.0.255}]"},
		{"in the middle", "10.0.0.0/24", []string{"10.0.0.16/28"}, "[{10.0.0.0 10.0.0.15} {10.0.0.32 10.0.0.255}]"},
		{"first and last", "10.0.0.0/24", []string{"10.0.0.0/25", "10.0.0.255/32"}, "[{10.0.0.128 10.0.0.254}]"},
		{"overlapping, in no order", "10.0.0.0/24", []string{"10.0.0.8/32", "10.0.0.0/28", "10.0.0.16/32"}, "[{10.0.0.17 10.0.0.255}]"},
		{"everything", "10.0.0.0/24", []string{"10.0.0.0/25", "10.0.0.128/25"}, "[]"},
		{"the end of all addresses", "255.255.255.0/24", []string{"255.255.255.128/25"}, "[{255.255.255.0 255.255.255.127}]"},
		{"elsewhere", "10.0.0.0/24", []string{"9.0.0.0/24", "11.0.0.0/24", "fd00::/64"}, "[{10.0.0.0 10.0.0.255}]"},
		{"no block", "x", nil, "[]"},
	} {
		if got := fmt.Sprint(block(&networkingv1.IPBlock{CIDR: tt.cidr, Except: tt.except})); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestUnion(t *testing.T) {
	r := func(first, last string) Range { return Range{netip.MustParseAddr(first), netip.MustParseAddr(last)} }
	got := union([]Range{
		r("fd00::", "fd00::1"), r("10.0.0.5", "10.0.0.9"), r("10.0.0.0", "10.0.0.4"), r("10.0.0.6", "10.0.0.7"), r("10.0.0.11", "10.0.0.12"),
		r("255.255.255.255", "255.255.255.255"), r("::", "::1"),
	})
	want := "[{10.0.0.0 10.0.0.9} {10.0.0.11 10.0.0.12} {255.255.255.255 255.255.255.255} {:: ::1} {fd00:: fd00::1}]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestDirections(t *testing.T) {
	in, out := networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	rule := []networkingv1.NetworkPolicyEgressRule{{}}
	for _, tt := range []struct {
		name    string
		spec    networkingv1.NetworkPolicySpec
		in, out bool
	}{
		{"no types", networkingv1.NetworkPolicySpec{}, true, false},
		{"no types, egress rules", networkingv1.NetworkPolicySpec{Egress: rule}, true, true},
		{"ingress, egress rules", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{in}, Egress: rule}, true, false},
		{"egress without rules", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{out}}, false, true},
		{"both", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{in, out}}, true, true},
	} {
		if gotIn, gotOut := directions(&networkingv1.NetworkPolicy{Spec: tt.spec}); gotIn != tt.in || gotOut != tt.out {
			t.Errorf("%s: ingress %t, egress %t", tt.name, gotIn, gotOut)
		}
	}
}

func TestPortsOf(t *testing.T) {
	port := func(name string, number int32, protocol corev1.Protocol) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: name, ContainerPort: number, Protocol: protocol}}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Ports: port("web", 1, corev1.ProtocolTCP)}, // it has ended when the pod serves
			{Ports: port("web", 2, corev1.ProtocolTCP), RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
		},
		Containers: []corev1.Container{{Ports: port("web", 3, "")}, {Ports: port("web", 4, corev1.ProtocolUDP)}, {Ports: port("other", 5, "")}},
	}}
	for protocol, want := range map[corev1.Protocol]string{
		corev1.ProtocolTCP: "[{TCP 2 2} {TCP 3 3}]", corev1.ProtocolUDP: "[{UDP 4 4}]", corev1.ProtocolSCTP: "[]", anyProtocol: "[{TCP 2 2} {TCP 3 3} {UDP 4 4}]",
	} {
		if got := fmt.Sprint(portsOf(p, "web", protocol)); got != want {
			t.Errorf("%q: %s, want %s", protocol, got, want)
		}
	}
}

// TestBuild_Owners: of all that say that they have an address, one has.
func TestBuild_Owners(t *testing.T) {
	now := time.Unix(1000, 0)
	of := func(name string, age time.Duration, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, Labels: map[string]string{"pod": name}, CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Spec:       corev1.PodSpec{NodeName: "here"},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	deny := func(name string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "deny-" + name}, Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"pod": name}},
		}}
	}
	policies := []*networkingv1.NetworkPolicy{deny("new"), deny("old")}
	for _, tt := range []struct {
		name string
		old  func(*corev1.Pod)
		want []string
	}{
		{"the younger", nil, []string{"x/deny-new"}},
		{"the one that is not ending", func(p *corev1.Pod) {
			p.CreationTimestamp, p.DeletionTimestamp = metav1.NewTime(now.Add(time.Hour)), new(metav1.NewTime(now))
		}, []string{"x/deny-new"}},
		{"the one that has not ended", func(p *corev1.Pod) {
			p.Status.Phase, p.CreationTimestamp = corev1.PodFailed, metav1.NewTime(now.Add(time.Hour))
		}, []string{"x/deny-new"}},
		{"the one that is not its node", func(p *corev1.Pod) {
			p.Spec.HostNetwork, p.CreationTimestamp = true, metav1.NewTime(now.Add(time.Hour))
		}, []string{"x/deny-new"}},
	} {
		snap := Build("here", Cluster{Policies: policies, Pods: []*corev1.Pod{of("old", time.Hour, tt.old), of("new", time.Minute, nil)}})
		want := []Pod{{Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}, Policies: tt.want}}
		if diff := cmp.Diff(want, snap.Ingress.Pods, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || snap.Ingress.Pending {
			t.Errorf("%s: pending %t (-want +got):\n%s", tt.name, snap.Ingress.Pending, diff)
		}
	}
}

// TestBuild_NamespaceUnknown: a pod may be seen before its namespace is, whose name is a label of it.
func TestBuild_NamespaceUnknown(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "y", Name: "p"}, Spec: corev1.PodSpec{NodeName: "there"}, Status: corev1.PodStatus{PodIP: "10.0.1.1"}}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "t"}, Spec: corev1.PodSpec{NodeName: "here"}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "n"}, Spec: networkingv1.NetworkPolicySpec{
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From:  []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "y"}}}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(80))}, {Protocol: new(corev1.ProtocolUDP)}},
		}},
	}}
	snap := Build("here", Cluster{Policies: []*networkingv1.NetworkPolicy{policy}, Pods: []*corev1.Pod{p, target}})
	allow := snap.Ingress.Policies[0].Rules[0]
	if got := fmt.Sprint(snap.Groups[allow.Groups[0]], allow.Ports); got != "[10.0.1.1] [{TCP 80 80} {UDP 0 65535}]" {
		t.Error(got)
	}
}

// TestBuild_InvalidSelectors: what a definition lets pass and nobody understands selects nothing, neither does a rule with it let anybody
// in, nor does one that is to refuse let all in; and it is told.
func TestBuild_InvalidSelectors(t *testing.T) {
	typo := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tenant", Operator: "in", Values: []string{"a"}}}}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "t"}, Spec: corev1.PodSpec{NodeName: "here"}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}}
	all := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "n"}, Spec: networkingv1.NetworkPolicySpec{
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}}},
	}}
	was := all.DeepCopy() // from before there was a validation
	was.Name, was.Spec.Ingress[0].From[0].NamespaceSelector = "o", &typo
	const message = `"in" is not a valid label selector operator`
	for _, tt := range []struct {
		name    string
		action  v1alpha2.ClusterNetworkPolicyRuleAction
		subject metav1.LabelSelector
		want    []Rule
		told    string
	}{
		{"accepts", v1alpha2.ClusterNetworkPolicyRuleActionAccept, metav1.LabelSelector{}, []Rule{{Action: Accept}},
			"ingress[0]: a selector (" + message + ") is not supported, the rule matches nothing"},
		{"denies", v1alpha2.ClusterNetworkPolicyRuleActionDeny, metav1.LabelSelector{}, []Rule{{Action: Deny, Anyone: true, AnyPort: true}},
			"ingress[0]: a selector (" + message + ") is not supported, the rule denies all"},
		{"is about nobody", v1alpha2.ClusterNetworkPolicyRuleActionDeny, typo, nil,
			"the selector of the subject (" + message + ") is not supported, the policy is not enforced"},
	} {
		p := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha2.ClusterNetworkPolicySpec{
			Tier: v1alpha2.AdminTier, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &tt.subject},
			Ingress: []v1alpha2.ClusterNetworkPolicyIngressRule{{Action: tt.action, From: []v1alpha2.ClusterNetworkPolicyIngressPeer{{Namespaces: &typo}}}},
		}}
		snap := Build("here", Cluster{Policies: []*networkingv1.NetworkPolicy{all, was}, ClusterPolicies: []*v1alpha2.ClusterNetworkPolicy{p}, Pods: []*corev1.Pod{target}})
		var got []Rule
		for _, admin := range snap.Ingress.Admin {
			got = append(got, admin.Rules...)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if told := Unsupported(p); told != tt.told {
			t.Errorf("%s: told %q", tt.name, told)
		}
		for i, want := range []string{"[10.0.0.1]", "[]"} {
			if got := fmt.Sprint(snap.Groups[snap.Ingress.Policies[i].Rules[0].Groups[0]]); got != want {
				t.Errorf("%s: policy %d lets in %s, want %s", tt.name, i, got, want)
			}
		}
	}
}
