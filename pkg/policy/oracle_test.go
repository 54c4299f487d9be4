// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// connection is what a packet belongs to, by its real ends.
type connection struct {
	client, server, asked netip.Addr
	protocol              corev1.Protocol
	port                  uint16
}

// oracle says what policies mean, one connection at a time and in the words of the documentation of NetworkPolicy: slow, simple,
// and sharing nothing with what it judges.
type oracle struct {
	node       string
	podCIDRs   []netip.Prefix
	dns        []netip.Addr
	policies   []*networkingv1.NetworkPolicy
	pods       []*corev1.Pod
	namespaces []*corev1.Namespace
	nodes      []*corev1.Node
	// cluster are ClusterNetworkPolicies.
	cluster []*v1alpha2.ClusterNetworkPolicy
}

// allows tells whether the node forwards the connection.
func (o *oracle) allows(c connection) bool {
	return o.side(networkingv1.PolicyTypeEgress, c) && o.side(networkingv1.PolicyTypeIngress, c)
}

func (o *oracle) side(side networkingv1.PolicyType, c connection) bool {
	egress := side == networkingv1.PolicyTypeEgress
	subject, peer := c.server, c.client
	if egress {
		if slices.Contains(o.dns, c.asked) {
			return true
		}
		subject, peer = c.client, c.server
	}
	pod := o.at(subject)
	if pod == nil {
		return !o.within(subject) || !o.pending(side)
	}
	if pod.Spec.NodeName != o.node || c.client == c.server {
		return true // another node looks after it, or nobody: a pod cannot be kept from itself
	}
	switch o.tier(v1alpha2.AdminTier, egress, pod, peer, c) {
	case v1alpha2.ClusterNetworkPolicyRuleActionAccept:
		return true
	case v1alpha2.ClusterNetworkPolicyRuleActionDeny:
		return false
	}
	isolated := false
	for _, p := range o.policies {
		if !o.isolates(p, pod, side) {
			continue
		}
		isolated = true
		if o.lets(p, egress, peer, c) {
			return true
		}
	}
	return !isolated && o.tier(v1alpha2.BaselineTier, egress, pod, peer, c) != v1alpha2.ClusterNetworkPolicyRuleActionDeny
}

// at returns the pod that has an address.
func (o *oracle) at(a netip.Addr) *corev1.Pod {
	var found *corev1.Pod
	for _, p := range o.pods {
		if !live(p) || !has(p, a) {
			continue
		}
		switch {
		case found == nil, found.DeletionTimestamp != nil && p.DeletionTimestamp == nil:
			found = p
		case found.DeletionTimestamp == nil && p.DeletionTimestamp != nil:
		case found.CreationTimestamp.Before(&p.CreationTimestamp):
			found = p
		}
	}
	return found
}

func live(p *corev1.Pod) bool {
	return !p.Spec.HostNetwork && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

func has(p *corev1.Pod, a netip.Addr) bool {
	return slices.ContainsFunc(p.Status.PodIPs, func(ip corev1.PodIP) bool { return netip.MustParseAddr(ip.IP) == a })
}

func (o *oracle) within(a netip.Addr) bool {
	return slices.ContainsFunc(o.podCIDRs, func(r netip.Prefix) bool { return r.Contains(a) })
}

// pending tells whether a pod of the node is isolated that has no address yet.
func (o *oracle) pending(side networkingv1.PolicyType) bool {
	for _, pod := range o.pods {
		if pod.Spec.NodeName == o.node && live(pod) && len(pod.Status.PodIPs) == 0 &&
			(o.refusesAny(pod, side == networkingv1.PolicyTypeEgress) ||
				slices.ContainsFunc(o.policies, func(p *networkingv1.NetworkPolicy) bool { return o.isolates(p, pod, side) })) {
			return true
		}
	}
	return false
}

func (o *oracle) isolates(p *networkingv1.NetworkPolicy, pod *corev1.Pod, side networkingv1.PolicyType) bool {
	if p.Namespace != pod.Namespace || !selects(&p.Spec.PodSelector, pod.Labels) {
		return false
	}
	if len(p.Spec.PolicyTypes) > 0 {
		return slices.Contains(p.Spec.PolicyTypes, side)
	}
	return side == networkingv1.PolicyTypeIngress || len(p.Spec.Egress) > 0
}

func (o *oracle) lets(p *networkingv1.NetworkPolicy, egress bool, peer netip.Addr, c connection) bool {
	if egress {
		return slices.ContainsFunc(p.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
			return o.isPeer(p.Namespace, r.To, peer) && o.isPort(r.Ports, c)
		})
	}
	return slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
		return o.isPeer(p.Namespace, r.From, peer) && o.isPort(r.Ports, c)
	})
}

func (o *oracle) isPeer(namespace string, peers []networkingv1.NetworkPolicyPeer, a netip.Addr) bool {
	pod := o.at(a)
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			in := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(a) }
			return in(p.IPBlock.CIDR) && !slices.ContainsFunc(p.IPBlock.Except, in)
		}
		if pod == nil || p.PodSelector != nil && !selects(p.PodSelector, pod.Labels) {
			return false
		}
		if p.NamespaceSelector == nil {
			return pod.Namespace == namespace
		}
		return slices.ContainsFunc(o.namespaces, func(n *corev1.Namespace) bool {
			return n.Name == pod.Namespace && selects(p.NamespaceSelector, n.Labels)
		})
	})
}

func (o *oracle) isPort(ports []networkingv1.NetworkPolicyPort, c connection) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		switch {
		case protocol != c.protocol:
			return false
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			server := o.at(c.server)
			return server != nil && slices.ContainsFunc(server.Spec.Containers, func(of corev1.Container) bool {
				return slices.ContainsFunc(of.Ports, func(q corev1.ContainerPort) bool {
					return q.Name == p.Port.StrVal && q.Protocol == protocol && q.ContainerPort == int32(c.port)
				})
			})
		case p.EndPort != nil:
			return p.Port.IntVal <= int32(c.port) && int32(c.port) <= *p.EndPort
		default:
			return p.Port.IntVal == int32(c.port)
		}
	})
}

func selects(s *metav1.LabelSelector, set map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(set))
}
