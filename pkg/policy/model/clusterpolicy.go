// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// inOrder puts policies in the order in which those of a tier are asked. Those of equal priority are asked by name, which upstream leaves
// open.
func inOrder(policies []*v1alpha2.ClusterNetworkPolicy) []*v1alpha2.ClusterNetworkPolicy {
	policies = slices.Clone(policies)
	slices.SortFunc(policies, func(a, b *v1alpha2.ClusterNetworkPolicy) int {
		return cmp.Or(cmp.Compare(a.Spec.Priority, b.Spec.Priority), cmp.Compare(a.Name, b.Name))
	})
	return policies
}

// NeedNodes tells whether a policy selects nodes.
func NeedNodes(policies []*v1alpha2.ClusterNetworkPolicy) bool {
	return slices.ContainsFunc(policies, func(p *v1alpha2.ClusterNetworkPolicy) bool {
		return slices.ContainsFunc(p.Spec.Egress, func(r v1alpha2.ClusterNetworkPolicyEgressRule) bool {
			return slices.ContainsFunc(r.To, func(to v1alpha2.ClusterNetworkPolicyEgressPeer) bool { return to.Nodes != nil })
		})
	})
}

// addCluster takes a policy in, if it is about a pod of this node. NetworkPolicies are taken in before.
func (b *builder) addCluster(p *v1alpha2.ClusterNetworkPolicy) {
	targets := b.targets(p.Spec.Subject)
	if len(targets) == 0 || !known(p.Spec.Tier) {
		return
	}
	in, out := rulesOf(p)
	b.snap.Ingress.govern(b.ingress, p, b.clusterRules(in, true), targets)
	b.snap.Egress.govern(b.egress, p, b.clusterRules(out, false), targets)
}

func known(t v1alpha2.Tier) bool { return t == v1alpha2.AdminTier || t == v1alpha2.BaselineTier }

// targets are the pods of this node that a policy is about.
func (b *builder) targets(s v1alpha2.ClusterNetworkPolicySubject) (out []*pod) {
	namespaces, pods := labels.Nothing(), labels.Everything()
	switch {
	case s.Namespaces != nil:
		namespaces = selectorOf(s.Namespaces)
	case s.Pods != nil:
		namespaces, pods = selectorOf(&s.Pods.NamespaceSelector), selectorOf(&s.Pods.PodSelector)
	}
	for _, t := range b.local {
		if namespaces.Matches(b.labelsOf(t.namespace)) && pods.Matches(t.labels) {
			out = append(out, t)
		}
	}
	return out
}

// govern has a policy with rules for this side be asked by pods.
func (s *Side) govern(by map[*pod]*Pod, p *v1alpha2.ClusterNetworkPolicy, rules []Rule, targets []*pod) {
	if len(rules) == 0 {
		return
	}
	policy := Policy{Name: "_" + strings.ToLower(string(p.Spec.Tier)) + "/" + p.Name, Rules: rules}
	denies := slices.ContainsFunc(rules, func(r Rule) bool { return r.Action == Deny })
	asked := false
	for _, t := range targets {
		of := subject(by, t)
		switch {
		case p.Spec.Tier == v1alpha2.AdminTier:
			of.Admin = append(of.Admin, policy.Name)
		case len(of.Policies) == 0:
			of.Baseline = append(of.Baseline, policy.Name)
		default:
			continue
		}
		asked = true
		s.ClusterPending = s.ClusterPending || denies && len(t.addrs) == 0
	}
	switch {
	case !asked:
	case p.Spec.Tier == v1alpha2.AdminTier:
		s.Admin = append(s.Admin, policy)
	default:
		s.Baseline = append(s.Baseline, policy)
	}
}

// clusterRule is a rule of either side.
type clusterRule struct {
	side      string
	name      string
	action    v1alpha2.ClusterNetworkPolicyRuleAction
	peers     []v1alpha2.ClusterNetworkPolicyEgressPeer
	protocols []v1alpha2.ClusterNetworkPolicyProtocol
}

func rulesOf(p *v1alpha2.ClusterNetworkPolicy) (ingress, egress []clusterRule) {
	for _, r := range p.Spec.Ingress {
		peers := make([]v1alpha2.ClusterNetworkPolicyEgressPeer, len(r.From))
		for i, from := range r.From {
			peers[i].Namespaces, peers[i].Pods = from.Namespaces, from.Pods
		}
		ingress = append(ingress, clusterRule{"ingress", r.Name, r.Action, peers, r.Protocols})
	}
	for _, r := range p.Spec.Egress {
		egress = append(egress, clusterRule{"egress", r.Name, r.Action, r.To, r.Protocols})
	}
	return ingress, egress
}

// actions by what upstream calls them.
var actions = map[v1alpha2.ClusterNetworkPolicyRuleAction]Action{
	v1alpha2.ClusterNetworkPolicyRuleActionAccept: Accept, v1alpha2.ClusterNetworkPolicyRuleActionDeny: Deny, v1alpha2.ClusterNetworkPolicyRuleActionPass: Pass,
}

// clusterRules fails closed, as upstream wants it, for what is not known: a rule that accepts matches nothing then, any other denies all.
func (b *builder) clusterRules(rules []clusterRule, ingress bool) (out []Rule) {
	for _, r := range rules {
		switch action := actions[r.action]; {
		case r.unknown() == "":
			out = append(out, b.clusterRule(r, action, ingress))
		case r.action != v1alpha2.ClusterNetworkPolicyRuleActionAccept:
			out = append(out, Rule{Action: Deny, Anyone: true, AnyPort: true})
		default:
			out = append(out, Rule{Action: Accept})
		}
	}
	return out
}

// clusterRule joins the alternatives of a rule that is known.
func (b *builder) clusterRule(r clusterRule, action Action, ingress bool) Rule {
	out := Rule{Action: action, AnyPort: len(r.protocols) == 0}
	for _, p := range r.peers {
		switch {
		case p.Namespaces != nil:
			out.group(b.everywhere(selectorOf(p.Namespaces), labels.Everything()))
		case p.Pods != nil:
			out.group(b.everywhere(selectorOf(&p.Pods.NamespaceSelector), selectorOf(&p.Pods.PodSelector)))
		case p.Nodes != nil:
			out.group(b.nodesWhere(p.Nodes))
		default:
			for _, cidr := range p.Networks {
				if all, ok := rangeOf(string(cidr)); ok {
					out.Blocks = append(out.Blocks, all)
				}
			}
		}
	}
	out.Blocks = union(out.Blocks)
	for _, p := range r.protocols {
		if p.DestinationNamedPort != "" {
			out.Named = append(out.Named, b.named(p.DestinationNamedPort, anyProtocol, ingress))
		} else if ports, ok := portsOfProtocol(p); ok {
			out.Ports = append(out.Ports, ports)
		}
	}
	return out
}

// nodesWhere returns the key of the addresses of some nodes.
func (b *builder) nodesWhere(s *metav1.LabelSelector) string {
	selector := selectorOf(s)
	key := "nodes " + nameOf(selector)
	if _, known := b.snap.Groups[key]; known {
		return key
	}
	var addrs []netip.Addr
	for _, n := range b.nodes {
		if selector.Matches(labels.Set(n.Labels)) {
			addrs = append(addrs, NodeAddresses(n)...)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	b.snap.Groups[key] = slices.Compact(addrs)
	return key
}

// NodeAddresses are those of a node, in the order of its status; names are none.
func NodeAddresses(n *corev1.Node) (out []netip.Addr) {
	for _, a := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

// portsOfProtocol returns what a rule means by a protocol, not ok if that is not known.
func portsOfProtocol(p v1alpha2.ClusterNetworkPolicyProtocol) (ports Ports, ok bool) {
	var port *v1alpha2.Port
	switch {
	case p.TCP != nil:
		ports.Protocol, port = corev1.ProtocolTCP, p.TCP.DestinationPort
	case p.UDP != nil:
		ports.Protocol, port = corev1.ProtocolUDP, p.UDP.DestinationPort
	case p.SCTP != nil:
		ports.Protocol, port = corev1.ProtocolSCTP, p.SCTP.DestinationPort
	default:
		return ports, false
	}
	first, last := int32(0), int32(math.MaxUint16)
	switch {
	case port == nil:
	case port.Range != nil:
		first, last = port.Range.Start, port.Range.End
	default:
		first, last = port.Number, port.Number
	}
	ports.First, ports.Last = uint16(first), uint16(last)
	return ports, first <= last && first >= 0 && last <= math.MaxUint16 && (port == nil || first > 0)
}

// unknown says what of a rule is not known or not supported, nothing if there is none.
func (r clusterRule) unknown() string {
	if _, ok := actions[r.action]; !ok {
		return fmt.Sprintf("action %q", r.action)
	}
	for _, p := range r.peers {
		if err := invalid(p.Namespaces, p.Nodes, p.Pods); err != nil {
			return fmt.Sprintf("a selector (%v)", err)
		}
		switch {
		case p.Namespaces != nil, p.Pods != nil, p.Nodes != nil:
		case len(p.DomainNames) > 0:
			return "domainNames"
		case len(p.Networks) == 0:
			return "a kind of peer"
		}
		for _, cidr := range p.Networks {
			if _, ok := rangeOf(string(cidr)); !ok {
				return fmt.Sprintf("network %q", cidr)
			}
		}
	}
	for _, p := range r.protocols {
		if _, ok := portsOfProtocol(p); !ok && p.DestinationNamedPort == "" {
			return "a kind of protocol"
		}
	}
	return ""
}

// invalid is what is wrong with selectors, each of which may be nil: the definition of the policies lets any operator and value pass.
func invalid(namespaces, nodes *metav1.LabelSelector, pods *v1alpha2.NamespacedPod) error {
	all := []*metav1.LabelSelector{namespaces, nodes}
	if pods != nil {
		all = append(all, &pods.NamespaceSelector, &pods.PodSelector)
	}
	for _, s := range all {
		if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
			return err
		}
	}
	return nil
}

// Unsupported says which rules of a policy are not enforced as they are written, and how instead; nothing if all are.
func Unsupported(p *v1alpha2.ClusterNetworkPolicy) string {
	if !known(p.Spec.Tier) {
		return fmt.Sprintf("tier %q is not supported, the policy is not enforced", p.Spec.Tier)
	}
	if err := invalid(p.Spec.Subject.Namespaces, nil, p.Spec.Subject.Pods); err != nil {
		return fmt.Sprintf("the selector of the subject (%v) is not supported, the policy is not enforced", err)
	}
	var out []string
	in, eg := rulesOf(p)
	for _, rules := range [][]clusterRule{in, eg} {
		for i, r := range rules {
			what := r.unknown()
			if what == "" {
				continue
			}
			which := fmt.Sprintf("%s[%d]", r.side, i)
			if r.name != "" {
				which += fmt.Sprintf(" (%s)", r.name)
			}
			instead := "denies all"
			if r.action == v1alpha2.ClusterNetworkPolicyRuleActionAccept {
				instead = "matches nothing"
			}
			out = append(out, fmt.Sprintf("%s: %s is not supported, the rule %s", which, what, instead))
		}
	}
	return strings.Join(out, "; ")
}
