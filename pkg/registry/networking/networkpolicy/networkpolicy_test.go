// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package networkpolicy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func valid() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(80)), EndPort: new(int32(90))}},
				From:  []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16"}}}},
			}},
		},
	}
}

func TestResource(t *testing.T) {
	type policy = networkingv1.NetworkPolicy
	port := func(p *policy) *networkingv1.NetworkPolicyPort { return &p.Spec.Ingress[0].Ports[0] }
	peer := func(p *policy) *networkingv1.NetworkPolicyPeer { return &p.Spec.Ingress[0].From[0] }
	const ports, from = "spec.ingress[0].ports[0]", "spec.ingress[0].from[0]"
	registrytest.Run(t, Resource, registrytest.Case[*policy]{
		AddToScheme: networkingv1.AddToScheme,
		Valid:       valid,
		Update:      func(p *policy) { p.Spec.PodSelector = metav1.LabelSelector{} },
		Invalid: []registrytest.Invalid[*policy]{
			{Name: "protocol", Mutate: func(p *policy) { port(p).Protocol = new(corev1.Protocol("x")) }, Field: ports + ".protocol"},
			{Name: "port", Mutate: func(p *policy) { port(p).Port = new(intstr.FromInt32(0)) }, Field: ports + ".port"},
			{Name: "port name", Mutate: func(p *policy) { *port(p) = networkingv1.NetworkPolicyPort{Port: new(intstr.FromString("-"))} }, Field: ports + ".port"},
			{Name: "end before port", Mutate: func(p *policy) { port(p).EndPort = new(int32(79)) }, Field: ports + ".endPort"},
			{Name: "end without port", Mutate: func(p *policy) { port(p).Port = nil }, Field: ports + ".endPort"},
			{Name: "end of a name", Mutate: func(p *policy) { port(p).Port = new(intstr.FromString("http")) }, Field: ports + ".endPort"},
			{Name: "no peer", Mutate: func(p *policy) { *peer(p) = networkingv1.NetworkPolicyPeer{} }, Field: from},
			{Name: "two peers", Mutate: func(p *policy) { peer(p).PodSelector = &metav1.LabelSelector{} }, Field: from},
			{Name: "no CIDR", Mutate: func(p *policy) { peer(p).IPBlock.CIDR = "" }, Field: from + ".ipBlock.cidr"},
			{Name: "host bits", Mutate: func(p *policy) { peer(p).IPBlock.CIDR = "10.0.0.1/8" }, Field: from + ".ipBlock.cidr"},
			{Name: "except outside", Mutate: func(p *policy) { peer(p).IPBlock.Except[0] = "11.0.0.0/16" }, Field: from + ".ipBlock.except[0]"},
			{Name: "except everything", Mutate: func(p *policy) { peer(p).IPBlock.Except[0] = "10.0.0.0/8" }, Field: from + ".ipBlock.except[0]"},
			{Name: "type", Mutate: func(p *policy) { p.Spec.PolicyTypes = []networkingv1.PolicyType{"x"} }, Field: "spec.policyTypes[0]"},
			{Name: "types", Mutate: func(p *policy) { p.Spec.PolicyTypes = []networkingv1.PolicyType{"Ingress", "Egress", "Ingress"} }, Field: "spec.policyTypes"},
			{Name: "selector", Mutate: func(p *policy) { p.Spec.PodSelector.MatchLabels["-"] = "" }, Field: "spec.podSelector.matchLabels"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*policy]{
			{Name: "CIDR", Mutate: func(p *policy) { peer(p).IPBlock.CIDR = "10.0.0.1/8" }, Field: from + ".ipBlock.cidr"},
		},
		Row: []any{"p", "a=b"},
	})
}

func TestUpdateKeepsWhatWasStored(t *testing.T) {
	old := valid()
	old.Spec.Ingress[0].From[0].IPBlock.CIDR = "10.0.0.1/8"
	if errs := validateUpdate(t.Context(), old, old); len(errs) > 0 {
		t.Errorf("errors = %v", errs)
	}
}

func TestDefaults(t *testing.T) {
	const in, out = networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	p := valid()
	setDefaults(p)
	if got := p.Spec.Ingress[0].Ports[0].Protocol; got == nil || *got != corev1.ProtocolTCP {
		t.Errorf("protocol is %v", got)
	}
	if diff := cmp.Diff([]networkingv1.PolicyType{in}, p.Spec.PolicyTypes); diff != "" {
		t.Errorf("policy types (-want +got):\n%s", diff)
	}
	p = valid()
	p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
	setDefaults(p)
	if diff := cmp.Diff([]networkingv1.PolicyType{in, out}, p.Spec.PolicyTypes); diff != "" {
		t.Errorf("policy types with egress (-want +got):\n%s", diff)
	}
}
