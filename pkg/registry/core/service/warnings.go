// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func warnings(_ context.Context, s, _ *corev1.Service) []string {
	var out []string
	spec, path := &s.Spec, field.NewPath("spec")
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if _, set := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; set {
		warn("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode)
	}
	none := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, ip := range spec.ClusterIPs {
			out = append(out, validation.GetWarningsForIP(path.Child("clusterIPs").Index(i), ip)...)
		}
	}
	if none {
		if spec.LoadBalancerIP != "" {
			warn("spec.loadBalancerIP is ignored for headless services")
		}
		if len(spec.ExternalIPs) > 0 {
			warn("spec.externalIPs is ignored for headless services")
		}
		if spec.SessionAffinity != corev1.ServiceAffinityNone {
			warn("spec.SessionAffinity is ignored for headless services")
		}
	}
	for i, ip := range spec.ExternalIPs {
		out = append(out, validation.GetWarningsForIP(path.Child("externalIPs").Index(i), ip)...)
	}
	named := spec.Type == corev1.ServiceTypeExternalName
	if len(spec.ExternalIPs) > 0 && !none && !named {
		warn("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if spec.LoadBalancerIP != "" {
		out = append(out, validation.GetWarningsForIP(path.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		out = append(out, validation.GetWarningsForCIDR(path.Child("loadBalancerSourceRanges").Index(i), cidr)...)
	}
	if named && len(spec.ExternalIPs) > 0 {
		warn("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName)
	}
	if !named && spec.ExternalName != "" {
		warn("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName)
	}
	if d := spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		warn("spec.trafficDistribution: %q is deprecated; use %q", corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone)
	}
	return out
}

func statusWarnings(_ context.Context, s, _ *corev1.Service) []string {
	var out []string
	for i, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			out = append(out, validation.GetWarningsForIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), in.IP)...)
		}
	}
	return out
}
