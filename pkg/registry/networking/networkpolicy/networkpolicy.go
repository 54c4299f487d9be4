// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package networkpolicy serves NetworkPolicies: who may speak with some pods. Touch it when their rules change; the proxy
// of the node is what would hold anybody to them.
package networkpolicy

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

var docs = networkingv1.NetworkPolicySpec{}.SwaggerDoc()

// Resource describes networkpolicies.
var Resource = &registry.Resource[*networkingv1.NetworkPolicy]{
	Kind:           networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
	Name:           "networkpolicies",
	ShortNames:     []string{"netpol"},
	New:            func() *networkingv1.NetworkPolicy { return &networkingv1.NetworkPolicy{} },
	NewList:        func() runtime.Object { return &networkingv1.NetworkPolicyList{} },
	Default:        setDefaults,
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings:       warnings,
	Spec:           func(p *networkingv1.NetworkPolicy) any { return p.Spec },
	PrepareForUpdate: func(_ context.Context, p, old *networkingv1.NetworkPolicy) {
		if !reflect.DeepEqual(p.Spec, old.Spec) { // an empty list is not a missing one
			p.Generation = old.Generation + 1
		}
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Pod-Selector", "string", docs["podSelector"]),
		registry.AgeColumn,
	},
	Row: func(p *networkingv1.NetworkPolicy) []any {
		return []any{p.Name, metav1.FormatLabelSelector(&p.Spec.PodSelector), registry.Age(p.CreationTimestamp)}
	},
}

func setDefaults(p *networkingv1.NetworkPolicy) {
	ports := func(list []networkingv1.NetworkPolicyPort) {
		for i := range list {
			if list[i].Protocol == nil {
				tcp := corev1.ProtocolTCP
				list[i].Protocol = &tcp
			}
		}
	}
	for _, r := range p.Spec.Ingress {
		ports(r.Ports)
	}
	for _, r := range p.Spec.Egress {
		ports(r.Ports)
	}
	if len(p.Spec.PolicyTypes) > 0 {
		return
	}
	p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(p.Spec.Egress) > 0 {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

// blocks visits all address blocks.
func blocks(spec *networkingv1.NetworkPolicySpec, visit func(b *networkingv1.IPBlock, path *field.Path)) {
	peers := func(list []networkingv1.NetworkPolicyPeer, path *field.Path) {
		for i, p := range list {
			if p.IPBlock != nil {
				visit(p.IPBlock, path.Index(i).Child("ipBlock"))
			}
		}
	}
	path := field.NewPath("spec")
	for i, r := range spec.Ingress {
		peers(r.From, path.Child("ingress").Index(i).Child("from"))
	}
	for i, r := range spec.Egress {
		peers(r.To, path.Child("egress").Index(i).Child("to"))
	}
}

func warnings(_ context.Context, p, _ *networkingv1.NetworkPolicy) []string {
	var out []string
	blocks(&p.Spec, func(b *networkingv1.IPBlock, path *field.Path) {
		out = append(out, validation.GetWarningsForCIDR(path.Child("cidr"), b.CIDR)...)
		for i, e := range b.Except {
			out = append(out, validation.GetWarningsForCIDR(path.Child("except").Index(i), e)...)
		}
	})
	return out
}
