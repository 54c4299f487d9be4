// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package networkpolicy

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

var (
	protocols   = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	policyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
)

// leniency is what an update may keep because it was stored before there was a rule against it.
type leniency struct {
	selectors metav1validation.LabelSelectorValidationOptions
	cidrs     []string
}

func validate(_ context.Context, p *networkingv1.NetworkPolicy) field.ErrorList {
	return validateSpec(&p.Spec, field.NewPath("spec"), leniency{})
}

func validateUpdate(_ context.Context, p, old *networkingv1.NetworkPolicy) field.ErrorList {
	var l leniency
	l.selectors.AllowInvalidLabelValueInSelector = len(metav1validation.ValidateLabelSelector(&old.Spec.PodSelector, l.selectors, nil)) > 0
	blocks(&old.Spec, func(b *networkingv1.IPBlock, _ *field.Path) {
		l.cidrs = append(append(l.cidrs, b.CIDR), b.Except...)
	})
	return validateSpec(&p.Spec, field.NewPath("spec"), l)
}

func validateSpec(spec *networkingv1.NetworkPolicySpec, path *field.Path, l leniency) field.ErrorList {
	errs := metav1validation.ValidateLabelSelector(&spec.PodSelector, l.selectors, path.Child("podSelector"))
	for i, r := range spec.Ingress {
		errs = append(errs, validateRule(r.Ports, r.From, path.Child("ingress").Index(i), "from", l)...)
	}
	for i, r := range spec.Egress {
		errs = append(errs, validateRule(r.Ports, r.To, path.Child("egress").Index(i), "to", l)...)
	}
	at := path.Child("policyTypes")
	if len(spec.PolicyTypes) > len(policyTypes) {
		return append(errs, field.Invalid(at, spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range spec.PolicyTypes {
		if !slices.Contains(policyTypes, t) {
			errs = append(errs, field.NotSupported(at.Index(i), t, policyTypes))
		}
	}
	return errs
}

func validateRule(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, path *field.Path, direction string, l leniency) field.ErrorList {
	var errs field.ErrorList
	for i := range ports {
		errs = append(errs, validatePort(&ports[i], path.Child("ports").Index(i))...)
	}
	for i := range peers {
		errs = append(errs, validatePeer(&peers[i], path.Child(direction).Index(i), l)...)
	}
	return errs
}

func validatePort(p *networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	number := func(at *field.Path, n int32) {
		for _, msg := range validation.IsValidPortNum(int(n)) {
			errs = append(errs, field.Invalid(at, n, msg))
		}
	}
	if p.Protocol != nil && !slices.Contains(protocols, *p.Protocol) {
		errs = append(errs, field.NotSupported(path.Child("protocol"), *p.Protocol, protocols))
	}
	port, end := path.Child("port"), path.Child("endPort")
	switch {
	case p.Port == nil:
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is not specified"))
		}
	case p.Port.Type == intstr.Int:
		number(port, p.Port.IntVal)
		if p.EndPort != nil {
			if *p.EndPort < p.Port.IntVal {
				errs = append(errs, field.Invalid(end, *p.EndPort, "must be greater than or equal to `port`"))
			}
			number(end, *p.EndPort)
		}
	default:
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is non-numeric"))
		}
		for _, msg := range validation.IsValidPortName(p.Port.StrVal) {
			errs = append(errs, field.Invalid(port, p.Port.StrVal, msg))
		}
	}
	return errs
}

func validatePeer(p *networkingv1.NetworkPolicyPeer, path *field.Path, l leniency) field.ErrorList {
	var errs field.ErrorList
	selectors := 0
	for _, s := range []struct {
		name     string
		selector *metav1.LabelSelector
	}{{"podSelector", p.PodSelector}, {"namespaceSelector", p.NamespaceSelector}} {
		if s.selector != nil {
			selectors++
			errs = append(errs, metav1validation.ValidateLabelSelector(s.selector, l.selectors, path.Child(s.name))...)
		}
	}
	if p.IPBlock != nil {
		errs = append(errs, validateBlock(p.IPBlock, path.Child("ipBlock"), l)...)
	}
	switch {
	case selectors == 0 && p.IPBlock == nil:
		errs = append(errs, field.Required(path, "must specify a peer"))
	case selectors > 0 && p.IPBlock != nil:
		errs = append(errs, field.Forbidden(path, "may not specify both ipBlock and another peer"))
	}
	return errs
}

func validateBlock(b *networkingv1.IPBlock, path *field.Path, l leniency) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(path.Child("cidr"), "")}
	}
	errs := validation.IsValidCIDRForLegacyField(path.Child("cidr"), b.CIDR, true, l.cidrs)
	_, whole, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs // told already
	}
	for i, text := range b.Except {
		at := path.Child("except").Index(i)
		errs = append(errs, validation.IsValidCIDRForLegacyField(at, text, true, l.cidrs)...)
		_, except, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue // told already
		}
		wholeBits, _ := whole.Mask.Size()
		exceptBits, _ := except.Mask.Size()
		if !whole.Contains(except.IP) || wholeBits >= exceptBits {
			errs = append(errs, field.Invalid(at, text, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
