// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// What follows from the type of a service. ClusterIP in the sense of needsClusterIP includes "None".

func needsClusterIP(s *corev1.Service) bool {
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		return true
	}
	return false
}

func headless(s *corev1.Service) bool {
	return needsClusterIP(s) && (s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone)
}

func needsNodePort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// allocatesNodePorts tells whether ports that ask for no node port get one.
func allocatesNodePorts(s *corev1.Service) bool {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.AllocateLoadBalancerNodePorts != nil {
		return *s.Spec.AllocateLoadBalancerNodePorts
	}
	return needsNodePort(s)
}

func externallyAccessible(s *corev1.Service) bool {
	return needsNodePort(s) || s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0
}

func needsHealthCheck(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// normalize prepares an update before anything is allocated: values that the server once chose are carried over where
// the client left them out, and what the new type does not have is dropped unless the client changed it, which
// validation then refuses.
func normalize(s, old *corev1.Service) {
	carryOver(s, old)
	dropForType(s, old)
	normalizeClusterIPs(s, old)
	trimSecondFamily(s, old)
}

func carryOver(s, old *corev1.Service) {
	if needsClusterIP(old) && needsClusterIP(s) {
		if s.Spec.ClusterIP == "" {
			s.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(s.Spec.ClusterIPs) == 0 && s.Spec.ClusterIP == old.Spec.ClusterIP {
			s.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
		}
		if s.Spec.IPFamilyPolicy == nil {
			s.Spec.IPFamilyPolicy = old.Spec.IPFamilyPolicy
		}
		if len(s.Spec.IPFamilies) == 0 {
			s.Spec.IPFamilies = slices.Clone(old.Spec.IPFamilies)
		}
	}
	if needsNodePort(old) && needsNodePort(s) {
		byName := map[string]int32{}
		for _, p := range old.Spec.Ports {
			byName[p.Name] = p.NodePort
		}
		asked := nodePorts(s)
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			if was := byName[p.Name]; p.NodePort == 0 && !asked[was] {
				p.NodePort = was
			}
		}
	}
	if needsHealthCheck(old) && needsHealthCheck(s) && s.Spec.HealthCheckNodePort == 0 {
		s.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

func nodePorts(s *corev1.Service) map[int32]bool {
	out := map[int32]bool{}
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			out[p.NodePort] = true
		}
	}
	return out
}

func dropForType(s, old *corev1.Service) {
	n, o := &s.Spec, &old.Spec
	if needsClusterIP(old) && !needsClusterIP(s) {
		if n.ClusterIP == o.ClusterIP && slices.Equal(n.ClusterIPs, o.ClusterIPs) {
			n.ClusterIP, n.ClusterIPs = "", nil
		}
		if slices.Equal(n.IPFamilies, o.IPFamilies) {
			n.IPFamilies = nil
		}
		if same(n.IPFamilyPolicy, o.IPFamilyPolicy) {
			n.IPFamilyPolicy = nil
		}
		if same(n.InternalTrafficPolicy, o.InternalTrafficPolicy) {
			n.InternalTrafficPolicy = nil
		}
	}
	if needsNodePort(old) && !needsNodePort(s) && sameNodePorts(n.Ports, o.Ports) {
		for i := range n.Ports {
			n.Ports[i].NodePort = 0
		}
	}
	if needsHealthCheck(old) && !needsHealthCheck(s) && n.HealthCheckNodePort == o.HealthCheckNodePort {
		n.HealthCheckNodePort = 0
	}
	if o.Type == corev1.ServiceTypeLoadBalancer && n.Type != corev1.ServiceTypeLoadBalancer {
		if same(n.AllocateLoadBalancerNodePorts, o.AllocateLoadBalancerNodePorts) {
			n.AllocateLoadBalancerNodePorts = nil
		}
		if same(n.LoadBalancerClass, o.LoadBalancerClass) {
			n.LoadBalancerClass = nil
		}
	}
	if externallyAccessible(old) && !externallyAccessible(s) && n.ExternalTrafficPolicy == o.ExternalTrafficPolicy {
		n.ExternalTrafficPolicy = ""
	}
	if o.Type == corev1.ServiceTypeExternalName && n.Type != corev1.ServiceTypeExternalName && n.ExternalName == o.ExternalName {
		n.ExternalName = ""
	}
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// sameNodePorts tells whether no new node port is asked for.
func sameNodePorts(ports, old []corev1.ServicePort) bool {
	had := map[int32]bool{0: true}
	for _, p := range old {
		had[p.NodePort] = true
	}
	return !slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return !had[p.NodePort] })
}
