// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

var (
	families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	policies = []corev1.IPFamilyPolicy{corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack}
)

// validateClusterIPs checks clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy against each other.
func validateClusterIPs(s *corev1.Service, path *field.Path) field.ErrorList {
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
	if ips[0] == corev1.ClusterIPNone {
		if len(ips) > 1 {
			errs = append(errs, field.Invalid(at, ips, "'None' must be the first and only value"))
		}
		return errs
	}
	valid := true
	for i, ip := range ips {
		if bad := validation.IsValidIPForLegacyField(at.Index(i), ip, true, nil); len(bad) > 0 {
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
	for i, ip := range ips {
		if f, ok := familyOf(ip); ok && i < len(s.Spec.IPFamilies) && f != s.Spec.IPFamilies[i] {
			errs = append(errs, field.Invalid(at.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", s.Spec.IPFamilies[i], i)))
		}
	}
	return errs
}

func validateUpdate(ctx context.Context, s, old *corev1.Service) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if needsClusterIP(s) && needsClusterIP(old) {
		errs = append(errs, validateIPUpdate(s, old, path)...)
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer {
		errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass, path.Child("loadBalancerClass"))...)
	}
	if needsHealthCheck(s) && needsHealthCheck(old) {
		errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.HealthCheckNodePort, old.Spec.HealthCheckNodePort, path.Child("healthCheckNodePort"))...)
	}
	return append(errs, validate(ctx, s)...)
}

// validateIPUpdate lets the first address and family never change, and the second only come and go with the policy.
func validateIPUpdate(s, old *corev1.Service, path *field.Path) field.ErrorList {
	const once, single = "may not change once set", "may only be removed if `ipFamilyPolicy` is set to 'SingleStack'"
	down := s.Spec.IPFamilyPolicy != nil && *s.Spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	var errs field.ErrorList
	ips, was := s.Spec.ClusterIPs, old.Spec.ClusterIPs
	at := path.Child("clusterIPs")
	switch {
	case len(was) == 0:
	case len(ips) == 0:
		errs = append(errs, field.Invalid(at.Index(0), ips, "primary clusterIP can not be unset"))
	case ips[0] != was[0]:
		errs = append(errs, field.Invalid(at.Index(0), ips, once))
	}
	if len(was) > 1 {
		switch {
		case len(ips) > 1 && ips[1] != was[1]:
			errs = append(errs, field.Invalid(at.Index(1), ips, once))
		case len(ips) == 1 && !down:
			errs = append(errs, field.Invalid(at.Index(1), ips, single))
		}
	}
	if headless(s) && len(s.Spec.Selector) == 0 && headless(old) {
		return errs // nothing was allocated by family
	}
	now, before := s.Spec.IPFamilies, old.Spec.IPFamilies
	at = path.Child("ipFamilies")
	switch {
	case len(before) == 0:
	case len(now) == 0:
		errs = append(errs, field.Invalid(at.Index(0), now, "primary ipFamily can not be unset"))
	case now[0] != before[0]:
		errs = append(errs, field.Invalid(at.Index(0), now, once))
	}
	if len(before) > 1 {
		switch {
		case len(now) > 1 && now[1] != before[1]:
			errs = append(errs, field.Invalid(at.Index(1), now, once))
		case len(now) == 1 && !down:
			errs = append(errs, field.Invalid(at.Index(1), now, single))
		}
	}
	return errs
}

// validateStatus looks at the load balancer only: upstream takes any conditions, even without a transition time.
func validateStatus(_ context.Context, s, _ *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status", "loadBalancer", "ingress")
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) > 0 {
		return append(errs, field.Forbidden(at, "may only be used when `spec.type` is \"LoadBalancer\""))
	}
	for i, in := range s.Status.LoadBalancer.Ingress {
		entry := at.Index(i)
		if in.IP != "" {
			errs = append(errs, validation.IsValidIPForLegacyField(entry.Child("ip"), in.IP, false, nil)...)
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
			if net.ParseIP(in.Hostname) != nil {
				errs = append(errs, field.Invalid(entry.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}
