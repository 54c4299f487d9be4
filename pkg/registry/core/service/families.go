// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// normalizeClusterIPs keeps clusterIP, of the time before dual-stack, in step with clusterIPs. old is nil on create.
func normalizeClusterIPs(s, old *corev1.Service) {
	n := &s.Spec
	if old == nil {
		if n.ClusterIP != "" && len(n.ClusterIPs) == 0 {
			n.ClusterIPs = []string{n.ClusterIP}
		}
		return
	}
	if n.ClusterIP == old.Spec.ClusterIP || !slices.Equal(n.ClusterIPs, old.Spec.ClusterIPs) {
		return
	}
	// Only the old field was written, by a client that does not know the new one.
	if n.ClusterIP == "" {
		n.ClusterIPs = nil
	} else {
		n.ClusterIPs = []string{n.ClusterIP}
	}
}

// trimSecondFamily lets a client go back to one family by setting ipFamilyPolicy alone.
func trimSecondFamily(s, old *corev1.Service) {
	n, o := &s.Spec, &old.Spec
	if n.IPFamilyPolicy == nil || *n.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack || same(n.IPFamilyPolicy, o.IPFamilyPolicy) {
		return
	}
	if len(n.ClusterIPs) > 1 && slices.Equal(n.ClusterIPs, o.ClusterIPs) {
		n.ClusterIPs = n.ClusterIPs[:1]
	}
	if len(n.IPFamilies) > 1 && slices.Equal(n.IPFamilies, o.IPFamilies) {
		n.IPFamilies = n.IPFamilies[:1]
	}
}

// defaultFamilies decides ipFamilies and ipFamilyPolicy of a service that has cluster IPs or is headless, from what the
// client gave and the families of the cluster, the primary first. old is nil on create.
func defaultFamilies(s, old *corev1.Service, cluster []corev1.IPFamily) field.ErrorList {
	spec := &s.Spec
	if !needsClusterIP(s) {
		return nil
	}
	if old != nil && needsClusterIP(old) {
		// A service that merely prefers two families is not upgraded by an unrelated update.
		if ptr.Deref(spec.IPFamilyPolicy, "") == corev1.IPFamilyPolicyPreferDualStack && same(spec.IPFamilyPolicy, old.Spec.IPFamilyPolicy) &&
			slices.Equal(spec.IPFamilies, old.Spec.IPFamilies) && slices.Equal(spec.ClusterIPs, old.Spec.ClusterIPs) {
			return nil
		}
	}
	selectorless := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			spec.IPFamilyPolicy = old.Spec.IPFamilyPolicy
		case selectorless:
			spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		default:
			spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		}
	}
	before := old
	if before == nil {
		before = &corev1.Service{}
	}
	if errs := validateClusterIPs(s, before, field.NewPath("spec")); len(errs) > 0 {
		return errs
	}
	if errs := inferFamilies(spec, &before.Spec, cluster); len(errs) > 0 {
		return errs
	}
	if selectorless {
		// Somebody else makes the endpoints, of any family, whatever the cluster's families are.
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = []corev1.IPFamily{cluster[0]}
		}
		if len(spec.IPFamilies) == 1 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
			spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
		}
		return nil
	}
	return completeFamilies(spec, cluster)
}

// inferFamilies takes families from the cluster IPs that the client asks for.
func inferFamilies(spec, old *corev1.ServiceSpec, cluster []corev1.IPFamily) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	policy := func(msg string) {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), spec.IPFamilyPolicy, msg))
	}
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack {
		if len(spec.ClusterIPs) == 2 {
			policy("must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified")
		}
		if len(spec.IPFamilies) == 2 {
			policy("must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")
		}
	} else {
		if len(spec.ClusterIPs) > 0 && len(spec.ClusterIPs) < len(old.ClusterIPs) && spec.ClusterIPs[0] == old.ClusterIPs[0] {
			policy("must be 'SingleStack' to release the secondary cluster IP")
		}
		if len(spec.IPFamilies) > 0 && len(spec.IPFamilies) < len(old.IPFamilies) && spec.IPFamilies[0] == old.IPFamilies[0] {
			policy("must be 'SingleStack' to release the secondary IP family")
		}
	}
	for i, ip := range spec.ClusterIPs {
		family, ok := familyOf(ip)
		switch {
		case !ok || i < len(spec.IPFamilies): // none, or validated before
		case !slices.Contains(cluster, family):
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(i), spec.ClusterIPs, fmt.Sprintf("%s is not configured on this cluster", family)))
		default:
			spec.IPFamilies = append(spec.IPFamilies, family)
		}
	}
	return errs
}

// completeFamilies adds the families that the policy calls for and checks that the cluster has them.
func completeFamilies(spec *corev1.ServiceSpec, cluster []corev1.IPFamily) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(cluster) < 2 {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
	}
	for i, f := range spec.IPFamilies {
		if !slices.Contains(cluster, f) {
			errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(i), f, "not configured on this cluster"))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{cluster[0]}
	}
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 && len(cluster) > 1 {
		spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

func familyOf(ip string) (corev1.IPFamily, bool) {
	a, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
		return "", false
	case a.Is4():
		return corev1.IPv4Protocol, true
	}
	return corev1.IPv6Protocol, true
}
