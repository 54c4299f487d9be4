// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"
)

var (
	families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	policies = []corev1.IPFamilyPolicy{corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack}
)

// validateClusterIPs checks clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy against each other.
func validateClusterIPs(s, old *corev1.Service, path *field.Path) field.ErrorList {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var errs field.ErrorList
	for i, f := range s.Spec.IPFamilies {
		at := path.Child("ipFamilies").Index(i)
		if !slices.Contains(families, f) {
			errs = append(errs, field.NotSupported(at, f, families))
		}
		if slices.Contains(s.Spec.IPFamilies[:i], f) {
			errs = append(errs, field.Duplicate(at, f))
		}
	}
	if p := s.Spec.IPFamilyPolicy; p != nil && !slices.Contains(policies, *p) {
		errs = append(errs, field.NotSupported(path.Child("ipFamilyPolicy"), p, policies))
	}
	at := path.Child("clusterIPs")
	ips := s.Spec.ClusterIPs
	switch {
	case len(ips) == 0 && s.Spec.ClusterIP != "":
		errs = append(errs, field.Required(at, ""))
	case len(ips) > 0 && s.Spec.ClusterIP == "":
		errs = append(errs, field.Invalid(at, ips, "must be empty when `clusterIP` is not specified"))
	case len(ips) > 0 && ips[0] != s.Spec.ClusterIP:
		errs = append(errs, field.Invalid(at, ips, "first value must match `clusterIP`"))
	}
	if len(ips) == 0 {
		return errs
	}
	valid := true
	for i, ip := range ips {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(ips) > 1 {
				valid = false
				errs = append(errs, field.Invalid(at, ips, "'None' must be the first and only value"))
			}
			continue
		}
		if bad := validation.IsValidIPForLegacyField(at.Index(i), ip, true, old.Spec.ClusterIPs); len(bad) > 0 {
			valid = false
			errs = append(errs, bad...)
		}
	}
	if len(ips) > 2 {
		errs = append(errs, field.Invalid(at, ips, "may only hold up to 2 values"))
	}
	if !valid {
		return errs
	}
	if len(ips) > 1 {
		if dual, err := netutils.IsDualStackIPStrings(ips); err != nil || !dual {
			errs = append(errs, field.Invalid(at, ips, "may specify no more than one IP for each IP family"))
		}
	}
	if headlessIP(s) {
		return errs
	}
	for i, ip := range ips {
		if f, ok := familyOf(ip); ok && i < len(s.Spec.IPFamilies) && f != s.Spec.IPFamilies[i] && slices.Contains(families, s.Spec.IPFamilies[i]) {
			errs = append(errs, field.Invalid(at.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", s.Spec.IPFamilies[i], i)))
		}
	}
	return errs
}

func validateUpdate(_ context.Context, s, old *corev1.Service) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if s.Spec.Type != corev1.ServiceTypeExternalName && old.Spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, validateIPUpdate(s, old, path)...)
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer && !same(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(path.Child("loadBalancerClass"), s.Spec.LoadBalancerClass, "may not change once set"))
	}
	if needsHealthCheck(s) && needsHealthCheck(old) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(path.Child("healthCheckNodePort"), "field is immutable"))
	}
	return append(errs, validateOver(s, old)...)
}

// validateIPUpdate lets the first address and family never change, and the second only come and go with the policy.
// validateIPUpdate lets addresses and families be added and removed in the second place only, and nothing be removed unless
// the client says that one family is enough. What is headless has no addresses, and may have other families at any time.
func validateIPUpdate(s, old *corev1.Service, path *field.Path) field.ErrorList {
	const once = "may not change once set"
	is, was := headlessIP(s), headlessIP(old)
	if is && was {
		return nil
	}
	single := ptr.Deref(s.Spec.IPFamilyPolicy, "") == corev1.IPFamilyPolicySingleStack
	var errs field.ErrorList
	ips, before, at := s.Spec.ClusterIPs, old.Spec.ClusterIPs, path.Child("clusterIPs")
	for i := range min(len(ips), len(before)) {
		if ips[i] != before[i] {
			errs = append(errs, field.Invalid(at.Index(i), ips, once))
		}
	}
	switch {
	case len(ips) >= len(before):
	case len(ips) == 0:
		errs = append(errs, field.Invalid(at.Index(0), ips, "primary clusterIP can not be unset"))
	case !single:
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	if is != was {
		return errs
	}
	now, had := s.Spec.IPFamilies, old.Spec.IPFamilies
	at = path.Child("ipFamilies")
	for i := range min(len(now), len(had)) {
		if now[i] != had[i] {
			errs = append(errs, field.Invalid(at.Index(0), now, once))
		}
	}
	if len(now) < len(had) && len(ips) == 0 {
		errs = append(errs, field.Invalid(at.Index(0), now, "primary ipFamily can not be unset"))
	}
	if len(now) < len(had) && len(now) == 1 && !single {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}

func validateStatus(_ context.Context, s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	var had []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			had = append(had, in.IP)
		}
	}
	at := field.NewPath("status", "loadBalancer", "ingress")
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) > 0 {
		return append(errs, field.Forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'"))
	}
	for i, in := range s.Status.LoadBalancer.Ingress {
		entry := at.Index(i)
		if in.IP != "" {
			errs = append(errs, validation.IsValidIPForLegacyField(entry.Child("ip"), in.IP, true, had)...)
		}
		switch modes := []corev1.LoadBalancerIPMode{corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP}; {
		case in.IPMode == nil && in.IP != "":
			errs = append(errs, field.Required(entry.Child("ipMode"), "must be specified when `ip` is set"))
		case in.IPMode != nil && in.IP == "":
			errs = append(errs, field.Forbidden(entry.Child("ipMode"), "may not be specified when `ip` is not set"))
		case in.IPMode != nil && !slices.Contains(modes, *in.IPMode):
			errs = append(errs, field.NotSupported(entry.Child("ipMode"), *in.IPMode, modes))
		}
		if in.Hostname != "" {
			for _, msg := range validation.IsDNS1123Subdomain(in.Hostname) {
				errs = append(errs, field.Invalid(entry.Child("hostname"), in.Hostname, msg))
			}
			if netutils.ParseIPSloppy(in.Hostname) != nil {
				errs = append(errs, field.Invalid(entry.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}
