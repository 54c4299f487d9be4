// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// What the oracle knows of ClusterNetworkPolicies, in the words of their documentation.

const (
	acceptRule = v1alpha2.ClusterNetworkPolicyRuleActionAccept
	denyRule   = v1alpha2.ClusterNetworkPolicyRuleActionDeny
	passRule   = v1alpha2.ClusterNetworkPolicyRuleActionPass
)

// reachesNode tells whether the node hears a connection of one of its pods to the node itself, to which NetworkPolicies do not apply
// whatever they say: they decide that it is heard, for pods that they select.
func (o *oracle) reachesNode(c connection) bool {
	if slices.Contains(o.dns, c.asked) {
		return true
	}
	pod := o.at(c.client)
	if pod == nil {
		return !o.within(c.client) || !slices.ContainsFunc(o.pods, func(p *corev1.Pod) bool {
			return p.Spec.NodeName == o.node && live(p) && len(p.Status.PodIPs) == 0 && o.refusesAny(p, true)
		})
	}
	if pod.Spec.NodeName != o.node {
		return true
	}
	switch o.tier(v1alpha2.AdminTier, true, pod, c.server, c) {
	case acceptRule:
		return true
	case denyRule:
		return false
	}
	for _, p := range o.policies {
		if o.isolates(p, pod, networkingv1.PolicyTypeEgress) {
			return true
		}
	}
	return o.tier(v1alpha2.BaselineTier, true, pod, c.server, c) != denyRule
}

// tier is the action of the first rule of a tier that matches, "" if none does.
func (o *oracle) tier(tier v1alpha2.Tier, egress bool, pod *corev1.Pod, peer netip.Addr, c connection) v1alpha2.ClusterNetworkPolicyRuleAction {
	var asked []*v1alpha2.ClusterNetworkPolicy
	for _, p := range o.cluster {
		if p.Spec.Tier == tier && o.isSubject(p.Spec.Subject, pod) {
			asked = append(asked, p)
		}
	}
	for len(asked) > 0 {
		first := 0
		for i, p := range asked {
			if p.Spec.Priority < asked[first].Spec.Priority || p.Spec.Priority == asked[first].Spec.Priority && p.Name < asked[first].Name {
				first = i
			}
		}
		if action := o.rules(asked[first], egress, peer, c); action != "" {
			return action
		}
		asked = slices.Delete(asked, first, first+1)
	}
	return ""
}

// refusesAny tells whether a policy refuses something to a pod.
func (o *oracle) refusesAny(pod *corev1.Pod, egress bool) bool {
	return slices.ContainsFunc(o.cluster, func(p *v1alpha2.ClusterNetworkPolicy) bool {
		if !o.isSubject(p.Spec.Subject, pod) {
			return false
		}
		side := networkingv1.PolicyTypeIngress
		if egress {
			side = networkingv1.PolicyTypeEgress
		}
		if p.Spec.Tier == v1alpha2.BaselineTier && slices.ContainsFunc(o.policies, func(n *networkingv1.NetworkPolicy) bool { return o.isolates(n, pod, side) }) {
			return false
		}
		if egress {
			return slices.ContainsFunc(p.Spec.Egress, func(r v1alpha2.ClusterNetworkPolicyEgressRule) bool {
				return r.Action == denyRule || r.Action == passRule && slices.ContainsFunc(r.To, strangeEgress)
			})
		}
		return slices.ContainsFunc(p.Spec.Ingress, func(r v1alpha2.ClusterNetworkPolicyIngressRule) bool {
			return r.Action == denyRule || r.Action == passRule && slices.ContainsFunc(r.From, strangeIngress)
		})
	})
}

func strangeIngress(p v1alpha2.ClusterNetworkPolicyIngressPeer) bool {
	return p.Namespaces == nil && p.Pods == nil
}

func strangeEgress(p v1alpha2.ClusterNetworkPolicyEgressPeer) bool {
	return p.Namespaces == nil && p.Pods == nil && p.Nodes == nil && len(p.Networks) == 0
}

func (o *oracle) isSubject(s v1alpha2.ClusterNetworkPolicySubject, pod *corev1.Pod) bool {
	if s.Namespaces != nil {
		return o.namespaceIs(s.Namespaces, pod)
	}
	return o.isOf(s.Pods, pod)
}

func (o *oracle) isOf(s *v1alpha2.NamespacedPod, pod *corev1.Pod) bool {
	return o.namespaceIs(&s.NamespaceSelector, pod) && selects(&s.PodSelector, pod.Labels)
}

func (o *oracle) namespaceIs(s *metav1.LabelSelector, pod *corev1.Pod) bool {
	return slices.ContainsFunc(o.namespaces, func(n *corev1.Namespace) bool { return n.Name == pod.Namespace && selects(s, n.Labels) })
}

func (o *oracle) rules(p *v1alpha2.ClusterNetworkPolicy, egress bool, peer netip.Addr, c connection) v1alpha2.ClusterNetworkPolicyRuleAction {
	other := o.at(peer)
	if egress {
		for _, r := range p.Spec.Egress {
			if slices.ContainsFunc(r.To, strangeEgress) {
				if r.Action == acceptRule {
					continue
				}
				return denyRule
			}
			if slices.ContainsFunc(r.To, func(to v1alpha2.ClusterNetworkPolicyEgressPeer) bool { return o.isDestination(to, other, peer) }) && o.isProtocol(r.Protocols, c) {
				return r.Action
			}
		}
		return ""
	}
	for _, r := range p.Spec.Ingress {
		if slices.ContainsFunc(r.From, strangeIngress) {
			if r.Action == acceptRule {
				continue
			}
			return denyRule
		}
		if slices.ContainsFunc(r.From, func(from v1alpha2.ClusterNetworkPolicyIngressPeer) bool {
			return other != nil && (from.Namespaces != nil && o.namespaceIs(from.Namespaces, other) || from.Pods != nil && o.isOf(from.Pods, other))
		}) && o.isProtocol(r.Protocols, c) {
			return r.Action
		}
	}
	return ""
}

func (o *oracle) isDestination(to v1alpha2.ClusterNetworkPolicyEgressPeer, pod *corev1.Pod, a netip.Addr) bool {
	switch {
	case to.Namespaces != nil:
		return pod != nil && o.namespaceIs(to.Namespaces, pod)
	case to.Pods != nil:
		return pod != nil && o.isOf(to.Pods, pod)
	case to.Nodes != nil:
		return slices.ContainsFunc(o.nodes, func(n *corev1.Node) bool {
			return selects(to.Nodes, n.Labels) && slices.ContainsFunc(n.Status.Addresses, func(of corev1.NodeAddress) bool { return of.Address == a.String() })
		})
	default:
		return slices.ContainsFunc(to.Networks, func(cidr v1alpha2.CIDR) bool { return netip.MustParsePrefix(string(cidr)).Contains(a) })
	}
}

func (o *oracle) isProtocol(protocols []v1alpha2.ClusterNetworkPolicyProtocol, c connection) bool {
	return len(protocols) == 0 || slices.ContainsFunc(protocols, func(p v1alpha2.ClusterNetworkPolicyProtocol) bool {
		is := func(protocol corev1.Protocol, port *v1alpha2.Port) bool {
			if c.protocol != protocol {
				return false
			}
			number := int32(c.port)
			return port == nil || port.Number == number || port.Range != nil && port.Range.Start <= number && number <= port.Range.End
		}
		switch {
		case p.TCP != nil:
			return is(corev1.ProtocolTCP, p.TCP.DestinationPort)
		case p.UDP != nil:
			return is(corev1.ProtocolUDP, p.UDP.DestinationPort)
		case p.SCTP != nil:
			return is(corev1.ProtocolSCTP, p.SCTP.DestinationPort)
		}
		server := o.at(c.server)
		return server != nil && slices.ContainsFunc(server.Spec.Containers, func(of corev1.Container) bool {
			return slices.ContainsFunc(of.Ports, func(q corev1.ContainerPort) bool {
				return q.Name == p.DestinationNamedPort && q.Protocol == c.protocol && q.ContainerPort == int32(c.port)
			})
		})
	})
}
