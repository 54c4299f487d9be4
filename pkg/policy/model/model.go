// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package model turns NetworkPolicies, ClusterNetworkPolicies, pods, namespaces and nodes into what one node has to enforce: which of its
// pods policies are about, and what these say of connections. It is pure; change it when a policy should mean something else.
package model

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Snapshot is what a node has to enforce. Equal inputs give equal snapshots. It is not changed once it is built.
type Snapshot struct {
	// Ingress is about connections to pods of this node, Egress about those from them.
	Ingress, Egress Side
	// Groups are addresses of pods and nodes by the names that Rules call them.
	Groups map[string][]netip.Addr
	// Named are ports of pods by the names that Rules call them.
	Named map[string][]Endpoint
	// Local are the addresses of all pods of this node, isolated or not.
	Local []netip.Addr
}

// Side is one direction.
type Side struct {
	// Admin and Baseline are the ClusterNetworkPolicies of these tiers that are about a pod of this node, in the order in which they are
	// asked. Policies are the NetworkPolicies that isolate one, by name.
	Admin, Policies, Baseline []Policy
	// Pods are those of this node that have addresses and that a policy is about, by address.
	Pods []Pod
	// Pending tells that a pod of this node is isolated whose address is not known yet: it may have one, and talk. ClusterPending tells
	// that ClusterNetworkPolicies refuse something to such a pod.
	Pending, ClusterPending bool
}

// Pod is a pod that a policy is about. The Admin tier is asked first, one policy after the other. Where it says nothing, or to pass on,
// Policies are: what none of them accepts is refused. A pod without Policies asks the Baseline tier instead, and what this does
// not deny is accepted.
type Pod struct {
	Addrs []netip.Addr
	// Policies are the names of those that isolate it, in order; Admin and Baseline those of the tiers. Baseline is empty if there are
	// Policies, for these leave nothing open.
	Admin, Policies, Baseline []string
}

// Policy is one direction of a policy. Of its rules the first that a connection fits counts.
type Policy struct {
	// Name is NAMESPACE/NAME, and for a ClusterNetworkPolicy _TIER/NAME.
	Name  string
	Rules []Rule
}

// Action is what becomes of connections that fit a rule.
type Action int

// The actions. Those of NetworkPolicies accept. Pass leads from the Admin tier to NetworkPolicies, and from the Baseline tier to the end,
// which accepts.
const (
	Accept Action = iota
	Deny
	Pass
)

// Rule is for connections of which the other end is one of the peers, and which go to one of the ports.
type Rule struct {
	Action Action
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

// Cluster is what there is of objects.
type Cluster struct {
	Policies        []*networkingv1.NetworkPolicy
	ClusterPolicies []*v1alpha2.ClusterNetworkPolicy
	Pods            []*corev1.Pod
	Namespaces      []*corev1.Namespace
	// Nodes are needed for policies that NeedNodes.
	Nodes []*corev1.Node
}

// Build looks at the cluster from a node.
func Build(node string, of Cluster) *Snapshot {
	b := &builder{
		cluster: index(node, of.Pods, of.Namespaces), nodes: of.Nodes,
		snap:    &Snapshot{Groups: map[string][]netip.Addr{}, Named: map[string][]Endpoint{}},
		ingress: map[*pod]*Pod{}, egress: map[*pod]*Pod{},
	}
	for _, p := range b.local {
		b.snap.Local = append(b.snap.Local, p.addrs...)
	}
	slices.SortFunc(b.snap.Local, netip.Addr.Compare)
	policies := slices.Clone(of.Policies)
	slices.SortFunc(policies, func(a, b *networkingv1.NetworkPolicy) int { return cmp.Compare(name(a), name(b)) })
	for _, p := range policies {
		b.add(p)
	}
	for _, p := range inOrder(of.ClusterPolicies) {
		b.addCluster(p)
	}
	b.snap.Ingress.Pods = subjects(b.ingress)
	b.snap.Egress.Pods = subjects(b.egress)
	return b.snap
}

func name(p *networkingv1.NetworkPolicy) string { return p.Namespace + "/" + p.Name }

type builder struct {
	*cluster
	nodes []*corev1.Node
	snap  *Snapshot
	// ingress and egress are what policies are about.
	ingress, egress map[*pod]*Pod
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
			policy.Rules = append(policy.Rules, b.rule(p.Namespace, r.From, r.Ports, true))
		}
		b.snap.Ingress.isolate(b.ingress, policy, targets)
	}
	if out {
		policy := Policy{Name: name(p)}
		for _, r := range p.Spec.Egress {
			policy.Rules = append(policy.Rules, b.rule(p.Namespace, r.To, r.Ports, false))
		}
		b.snap.Egress.isolate(b.egress, policy, targets)
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

func (s *Side) isolate(by map[*pod]*Pod, policy Policy, targets []*pod) {
	s.Policies = append(s.Policies, policy)
	for _, t := range targets {
		of := subject(by, t)
		of.Policies = append(of.Policies, policy.Name)
		s.Pending = s.Pending || len(t.addrs) == 0
	}
}

func subject(by map[*pod]*Pod, p *pod) *Pod {
	if by[p] == nil {
		by[p] = &Pod{Addrs: p.addrs}
	}
	return by[p]
}

func subjects(by map[*pod]*Pod) []Pod {
	var out []Pod
	for _, p := range by {
		if len(p.Addrs) > 0 {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b Pod) int { return a.Addrs[0].Compare(b.Addrs[0]) })
	return out
}

// rule joins what the alternatives of a rule have in common: no peers are all, and no ports are all.
func (b *builder) rule(namespace string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, ingress bool) Rule {
	a := Rule{Anyone: len(peers) == 0, AnyPort: len(ports) == 0}
	for _, p := range peers {
		if p.IPBlock != nil {
			a.Blocks = append(a.Blocks, block(p.IPBlock)...)
			continue
		}
		a.group(b.group(namespace, p))
	}
	a.Blocks = union(a.Blocks)
	for _, p := range ports {
		if p.Port != nil && p.Port.Type == intstr.String {
			a.Named = append(a.Named, b.named(p.Port.StrVal, protocol(p.Protocol), ingress))
		} else if r, ok := numbered(p); ok {
			a.Ports = append(a.Ports, r)
		}
	}
	return a
}

// group adds one, if it is another.
func (r *Rule) group(key string) {
	if !slices.Contains(r.Groups, key) {
		r.Groups = append(r.Groups, key)
	}
}
