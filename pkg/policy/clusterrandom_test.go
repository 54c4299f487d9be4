// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"minik8s.io/minik8s/pkg/policy/rules"
)

// TestRandomClusterPolicies is TestRandomPolicies with ClusterNetworkPolicies of both tiers, and connections to the node itself.
func TestRandomClusterPolicies(t *testing.T) {
	const clusters = 200
	var tally tally
	for seed := range uint64(clusters) {
		r := rand.New(rand.NewPCG(seed, 3))
		o := randomCluster(r)
		randomNodes(r, o)
		for i := range 1 + r.IntN(5) {
			o.cluster = append(o.cluster, randomClusterPolicy(r, i))
		}
		tally.compare(t, seed, o)
	}
	tally.lively(t)
	if tally.nodeRefused < 500 || tally.nodePassed < 500 {
		t.Errorf("the clusters are dull: %d connections to the node refused, %d not", tally.nodeRefused, tally.nodePassed)
	}
}

func randomNodes(r *rand.Rand, o *oracle) {
	for i, name := range []string{"here", "there"} {
		o.nodes = append(o.nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": pick(r, "1", "2")}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", 1+i)}, {Type: corev1.NodeInternalIP, Address: fmt.Sprintf("2001:db8::%d", 1+i)},
				{Type: corev1.NodeHostName, Address: name},
			}},
		})
	}
}

// toNode are connections of pods, and of addresses of which nobody knows a pod, to the node.
func toNode(o *oracle) []connection {
	clients := []netip.Addr{netip.MustParseAddr("10.244.0.200"), netip.MustParseAddr("fd00:244::c8"), netip.MustParseAddr("192.0.2.77")}
	for _, p := range o.pods {
		for _, ip := range p.Status.PodIPs {
			clients = append(clients, netip.MustParseAddr(ip.IP))
		}
	}
	var out []connection
	for _, client := range clients {
		server := netip.MustParseAddr("192.0.2.1")
		if client.Is6() {
			server = netip.MustParseAddr("2001:db8::1")
		}
		asked := []netip.Addr{server}
		if client.Is4() {
			asked = append(asked, o.dns[0])
		}
		for _, a := range asked {
			for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
				for _, port := range []uint16{80, 81} {
					out = append(out, connection{client: client, server: server, asked: a, protocol: protocol, port: port})
				}
			}
		}
	}
	return out
}

func randomClusterPolicy(r *rand.Rand, i int) *v1alpha2.ClusterNetworkPolicy {
	p := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}
	p.Spec.Tier, p.Spec.Priority = pick(r, v1alpha2.AdminTier, v1alpha2.BaselineTier), pick[int32](r, 0, 5, 1000) // ties too
	if r.IntN(2) == 0 {
		p.Spec.Subject.Namespaces = randomSelector(r, "tier", "1", "2")
	} else {
		p.Spec.Subject.Pods = &v1alpha2.NamespacedPod{NamespaceSelector: *randomSelector(r, "ns", "x", "y", "z"), PodSelector: *randomSelector(r, "pod", "a", "b", "c")}
	}
	action := func() v1alpha2.ClusterNetworkPolicyRuleAction { return pick(r, acceptRule, denyRule, passRule) }
	for range r.IntN(4) {
		rule := v1alpha2.ClusterNetworkPolicyIngressRule{Action: action(), Protocols: randomProtocols(r)}
		for range 1 + r.IntN(2) {
			peer := randomEgressPeer(r, 2)
			rule.From = append(rule.From, v1alpha2.ClusterNetworkPolicyIngressPeer{Namespaces: peer.Namespaces, Pods: peer.Pods})
		}
		p.Spec.Ingress = append(p.Spec.Ingress, rule)
	}
	for range r.IntN(4) {
		rule := v1alpha2.ClusterNetworkPolicyEgressRule{Action: action(), Protocols: randomProtocols(r)}
		for range 1 + r.IntN(2) {
			rule.To = append(rule.To, randomEgressPeer(r, 4))
		}
		p.Spec.Egress = append(p.Spec.Egress, rule)
	}
	return p
}

// randomEgressPeer is of one of the first kinds there are, and rarely of one that is not known.
func randomEgressPeer(r *rand.Rand, kinds int) (p v1alpha2.ClusterNetworkPolicyEgressPeer) {
	if r.IntN(25) == 0 {
		p.DomainNames = pick(r, nil, []v1alpha2.DomainName{"example.com"})
		return p
	}
	switch r.IntN(kinds) {
	case 0:
		p.Namespaces = randomSelector(r, "tier", "1", "2")
	case 1:
		p.Pods = &v1alpha2.NamespacedPod{NamespaceSelector: *randomSelector(r, "ns", "x", "y", "z"), PodSelector: *randomSelector(r, "pod", "a", "b", "c")}
	case 2:
		p.Nodes = randomSelector(r, "zone", "1", "2")
	default:
		p.Networks = pick(r, []v1alpha2.CIDR{"0.0.0.0/0"}, []v1alpha2.CIDR{"::/0", "10.244.0.0/29"}, []v1alpha2.CIDR{"10.244.0.0/16", "10.244.0.0/24"}, []v1alpha2.CIDR{"192.0.2.0/30"})
	}
	return p
}

func randomProtocols(r *rand.Rand) []v1alpha2.ClusterNetworkPolicyProtocol {
	var out []v1alpha2.ClusterNetworkPolicyProtocol
	for range r.IntN(3) {
		var p v1alpha2.ClusterNetworkPolicyProtocol
		port := pick(r, nil, &v1alpha2.Port{Number: pick[int32](r, 80, 81)}, &v1alpha2.Port{Range: &v1alpha2.PortRange{Start: pick[int32](r, 1, 80), End: pick[int32](r, 81, 65535)}})
		switch r.IntN(4) {
		case 0:
			p.TCP = &v1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: port}
		case 1:
			p.UDP = &v1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: port}
		case 2:
			p.SCTP = &v1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: port}
		default:
			p.DestinationNamedPort = pick(r, "web", "dns")
		}
		out = append(out, p)
	}
	return out
}

// compareNode does so for what the node itself hears.
func (n *tally) compareNode(t *testing.T, seed uint64, o *oracle, table *rules.Table) {
	t.Helper()
	trace := newTracer(table)
	for _, c := range toNode(o) {
		want, got := o.reachesNode(c), trace.passes(rules.Input, c, true)
		if got {
			n.nodePassed++
		} else {
			n.nodeRefused++
		}
		if want != got {
			t.Fatalf("seed %d: %+v reaches the node: %t, want %t\npolicies: %+v\nof the cluster: %+v\ntable: %v", seed, c, got, want, o.policies, o.cluster, table)
		}
	}
}
