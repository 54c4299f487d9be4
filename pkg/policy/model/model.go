// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package model turns NetworkPolicies, pods and namespaces into what one node has to enforce: which of its pods are
// isolated, and who may talk to them all the same. It is pure; change it when a policy should mean something else.
package model

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Snapshot is what a node has to enforce. Equal inputs give equal snapshots. It is not changed once it is built.
type Snapshot struct {
	// Ingress is about connections to pods of this node, Egress about those from them.
	Ingress, Egress Side
	// Groups are addresses of pods by the names that Allows call them.
	Groups map[string][]netip.Addr
	// Named are ports of pods by the names that Allows call them.
	Named map[string][]Endpoint
	// Local are the addresses of all pods of this node, isolated or not.
	Local []netip.Addr
}

// Side is one direction.
type Side struct {
	// Policies are those that isolate a pod of this node, by name.
	Policies []Policy
	// Pods are the isolated pods of this node that have addresses, by address.
	Pods []Pod
	// Pending tells that a pod of this node is isolated whose address is not known yet: it may have one, and talk.
	Pending bool
}

// Pod is an isolated pod.
type Pod struct {
	Addrs []netip.Addr
	// Policies are the names of those that isolate it, in order.
	Policies []string
}

// Policy is one direction of a NetworkPolicy. What none of its Allows lets through is refused, if no other policy does.
type Policy struct {
	// Name is NAMESPACE/NAME.
	Name   string
	Allows []Allow
}

// Allow lets connections through of which the other end is one of the peers, and which go to one of the ports.
type Allow struct {
	// Anyone may be the peer; then Groups and Blocks are empty.
	Anyone bool
	// Groups are keys of Snapshot.Groups.
	Groups []string
	// Blocks are disjoint and in order.
	Blocks []Range
	// AnyPort of any protocol will do; then Ports and Named are empty.
	AnyPort bool
	Ports   []Ports
	// Named are keys of Snapshot.Named.
	Named []string
}

// Range are the addresses from First to Last, both of one family.
type Range struct{ First, Last netip.Addr }

// Ports are those from First to Last of a protocol.
type Ports struct {
	Protocol    corev1.Protocol
	First, Last uint16
}

// Endpoint is a port of a pod.
type Endpoint struct {
	Addr     netip.Addr
	Protocol corev1.Protocol
	Port     uint16
}

// Build looks at the cluster from a node.
func Build(node string, policies []*networkingv1.NetworkPolicy, pods []*corev1.Pod, namespaces []*corev1.Namespace) *Snapshot {
	b := &builder{
		cluster: index(node, pods, namespaces),
		snap:    &Snapshot{Groups: map[string][]netip.Addr{}, Named: map[string][]Endpoint{}},
	}
	for _, p := range b.local {
		b.snap.Local = append(b.snap.Local, p.addrs...)
	}
	slices.SortFunc(b.snap.Local, netip.Addr.Compare)
	policies = slices.Clone(policies)
	slices.SortFunc(policies, func(a, b *networkingv1.NetworkPolicy) int { return cmp.Compare(name(a), name(b)) })
	for _, p := range policies {
		b.add(p)
	}
	b.snap.Ingress.Pods = b.isolated(b.ingress)
	b.snap.Egress.Pods = b.isolated(b.egress)
	return b.snap
}

func name(p *networkingv1.NetworkPolicy) string { return p.Namespace + "/" + p.Name }

type builder struct {
	*cluster
	snap *Snapshot
	// ingress and egress are the names of the policies that isolate a pod.
	ingress, egress map[*pod][]string
}

// add takes a policy in, if it selects a pod of this node.
func (b *builder) add(p *networkingv1.NetworkPolicy) {
	selected := selectorOf(&p.Spec.PodSelector)
	var targets []*pod
	for _, t := range b.local {
		if t.namespace == p.Namespace && selected.Matches(t.labels) {
			targets = append(targets, t)
		}
	}
	if len(targets) == 0 {
		return
	}
	in, out := directions(p)
	if in {
		policy := Policy{Name: name(p)}
		for _, r := range p.Spec.Ingress {
			policy.Allows = append(policy.Allows, b.allow(p.Namespace, r.From, r.Ports, true))
		}
		b.snap.Ingress.isolate(&b.ingress, policy, targets)
	}
	if out {
		policy := Policy{Name: name(p)}
		for _, r := range p.Spec.Egress {
			policy.Allows = append(policy.Allows, b.allow(p.Namespace, r.To, r.Ports, false))
		}
		b.snap.Egress.isolate(&b.egress, policy, targets)
	}
}

// directions of a policy without types are ingress, and egress if there is a rule for it.
func directions(p *networkingv1.NetworkPolicy) (ingress, egress bool) {
	types := p.Spec.PolicyTypes
	if len(types) == 0 {
		return true, len(p.Spec.Egress) > 0
	}
	return slices.Contains(types, networkingv1.PolicyTypeIngress), slices.Contains(types, networkingv1.PolicyTypeEgress)
}

func (s *Side) isolate(by *map[*pod][]string, policy Policy, targets []*pod) {
	s.Policies = append(s.Policies, policy)
	if *by == nil {
		*by = map[*pod][]string{}
	}
	for _, t := range targets {
		(*by)[t] = append((*by)[t], policy.Name)
		s.Pending = s.Pending || len(t.addrs) == 0
	}
}

func (b *builder) isolated(by map[*pod][]string) []Pod {
	var out []Pod
	for p, policies := range by {
		if len(p.addrs) > 0 {
			out = append(out, Pod{Addrs: p.addrs, Policies: policies})
		}
	}
	slices.SortFunc(out, func(a, b Pod) int { return a.Addrs[0].Compare(b.Addrs[0]) })
	return out
}

// allow joins what the alternatives of a rule have in common: no peers are all, and no ports are all.
func (b *builder) allow(namespace string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, ingress bool) Allow {
	a := Allow{Anyone: len(peers) == 0, AnyPort: len(ports) == 0}
	for _, p := range peers {
		if p.IPBlock != nil {
			a.Blocks = append(a.Blocks, block(p.IPBlock)...)
			continue
		}
		if key := b.group(namespace, p); !slices.Contains(a.Groups, key) {
			a.Groups = append(a.Groups, key)
		}
	}
	a.Blocks = union(a.Blocks)
	for _, p := range ports {
		if key, ok := b.named(p, ingress); ok {
			a.Named = append(a.Named, key)
		} else if r, ok := numbered(p); ok {
			a.Ports = append(a.Ports, r)
		}
	}
	return a
}
