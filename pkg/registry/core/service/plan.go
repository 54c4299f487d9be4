// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ipPlan is what to do about cluster IPs: take[i] is the address of family i to take, "" any, nothing if keep[i].
type ipPlan struct {
	families []corev1.IPFamily
	want     []string
	keep     []bool
	release  []string
}

// planIPs compares a service with what it was (nil on create).
func planIPs(s, old *corev1.Service) ipPlan {
	var had []string
	if old != nil && needsClusterIP(old) && !headless(old) {
		had = old.Spec.ClusterIPs
	}
	var p ipPlan
	if needsClusterIP(s) && !headless(s) {
		p.families = s.Spec.IPFamilies
		for i := range p.families {
			ip := ""
			if i < len(s.Spec.ClusterIPs) {
				ip = s.Spec.ClusterIPs[i]
			}
			p.want = append(p.want, ip)
			p.keep = append(p.keep, ip != "" && slices.Contains(had, ip))
		}
	}
	for _, ip := range had {
		if !slices.Contains(p.want, ip) {
			p.release = append(p.release, ip)
		}
	}
	return p
}

// portPlan is what to do about node ports: take holds, by index of the service port, the port to take (0 any); same
// lets a service port share the node port of another one, by index.
type portPlan struct {
	take    map[int]int32
	same    map[int]int
	release []int32
}

// planPorts compares a service with what it was (nil on create). Service ports with one number and several protocols
// share a node port if nobody asks otherwise, as DNS wants.
func planPorts(s, old *corev1.Service) portPlan {
	p := portPlan{take: map[int]int32{}, same: map[int]int{}}
	had := map[int32]bool{}
	if old != nil && needsNodePort(old) {
		had = nodePorts(old)
	}
	if needsNodePort(s) {
		first := map[int32]int{}   // node port -> index of the port that takes it
		sibling := map[int32]int{} // service port -> index of the port that has a node port
		for i, sp := range s.Spec.Ports {
			if sp.NodePort == 0 {
				continue
			}
			if _, taken := first[sp.NodePort]; !taken && !had[sp.NodePort] {
				p.take[i] = sp.NodePort
			}
			if _, taken := first[sp.NodePort]; !taken {
				first[sp.NodePort] = i
			}
			if _, ok := sibling[sp.Port]; !ok {
				sibling[sp.Port] = i
			}
		}
		if allocatesNodePorts(s) {
			for i, sp := range s.Spec.Ports {
				if sp.NodePort != 0 {
					continue
				}
				if j, ok := sibling[sp.Port]; ok && !protocolTaken(s.Spec.Ports, p.same, j, sp.Protocol) {
					p.same[i] = j
					continue
				}
				p.take[i] = 0
				if _, ok := sibling[sp.Port]; !ok {
					sibling[sp.Port] = i
				}
			}
		}
	}
	now := map[int32]bool{}
	if needsNodePort(s) {
		now = nodePorts(s)
	}
	for port := range had {
		if !now[port] {
			p.release = append(p.release, port)
		}
	}
	slices.Sort(p.release)
	return p
}

// protocolTaken tells whether the node port of service port j, or one that shares it, already serves the protocol.
func protocolTaken(ports []corev1.ServicePort, shared map[int]int, j int, protocol corev1.Protocol) bool {
	if ports[j].Protocol == protocol {
		return true
	}
	for i, k := range shared {
		if k == j && ports[i].Protocol == protocol {
			return true
		}
	}
	return ports[j].NodePort != 0 && slices.ContainsFunc(ports, func(p corev1.ServicePort) bool {
		return p.NodePort == ports[j].NodePort && p.Protocol == protocol
	})
}
