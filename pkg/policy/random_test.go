// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"minik8s.io/minik8s/pkg/policy/model"
	"minik8s.io/minik8s/pkg/policy/rules"
)

// TestRandomPolicies compares the table with the oracle for many small clusters, and all connections in them.
func TestRandomPolicies(t *testing.T) {
	const clusters = 500
	var tally tally
	for seed := range uint64(clusters) {
		tally.compare(t, seed, randomCluster(rand.New(rand.NewPCG(seed, 2))))
	}
	tally.lively(t)
}

// tally counts connections.
type tally struct{ dropped, passed, nodeRefused, nodePassed int }

func (n *tally) compare(t *testing.T, seed uint64, o *oracle) {
	t.Helper()
	of := model.Cluster{Policies: o.policies, ClusterPolicies: o.cluster, Pods: o.pods, Namespaces: o.namespaces, Nodes: o.nodes}
	table := rules.Build(model.Build(o.node, of), rules.Config{PodCIDRs: o.podCIDRs, ClusterDNS: o.dns})
	trace := newTracer(table)
	for _, c := range connections(o) {
		want, got := o.allows(c), trace.passes(rules.Forward, c, true)
		if got {
			n.passed++
		} else {
			n.dropped++
		}
		if want != got {
			t.Fatalf("seed %d: %+v passes: %t, want %t\npolicies: %+v\nof the cluster: %+v\ntable: %v", seed, c, got, want, o.policies, o.cluster, table)
		}
		if !got && trace.passes(rules.Forward, c, false) && !letsAll(o) {
			t.Fatalf("seed %d: %+v is refused, but not a packet of it of which the connection is not known\ntable: %v", seed, c, table)
		}
	}
	n.compareNode(t, seed, o, table)
}

func (n *tally) lively(t *testing.T) {
	t.Helper()
	if n.dropped < 10000 || n.passed < 10000 {
		t.Errorf("the clusters are dull: %d connections refused, %d not", n.dropped, n.passed)
	}
}

// letsAll tells that a packet of no known connection may pass: pending pods are not told from others then, and neither is
// the direction.
func letsAll(o *oracle) bool {
	return o.pending(networkingv1.PolicyTypeIngress) || o.pending(networkingv1.PolicyTypeEgress)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomCluster(r *rand.Rand) *oracle {
	o := &oracle{
		node: "here", podCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:244::/64")},
		dns: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
	}
	for _, n := range []string{"x", "y", "z"} {
		o.namespaces = append(o.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"ns": n, "tier": pick(r, "1", "2")}}})
	}
	host := 0
	for i := range 4 + r.IntN(6) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pick(r, "x", "y", "z"), Name: fmt.Sprint("p", i), UID: "", Labels: map[string]string{"pod": pick(r, "a", "b", "c")},
				CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
			},
			Spec: corev1.PodSpec{NodeName: pick(r, "here", "here", "there"), HostNetwork: r.IntN(12) == 0, Containers: []corev1.Container{{
				Ports: []corev1.ContainerPort{
					{Name: "web", ContainerPort: pick[int32](r, 80, 81), Protocol: corev1.ProtocolTCP},
					{Name: pick(r, "web", "dns"), ContainerPort: 80, Protocol: corev1.ProtocolUDP},
				},
			}}},
			Status: corev1.PodStatus{Phase: pick(r, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed)},
		}
		if r.IntN(8) == 0 {
			now := metav1.NewTime(time.Unix(100, 0))
			p.DeletionTimestamp = &now
		}
		if r.IntN(5) > 0 {
			host++ // else the address of the one before it, which may have ended
		}
		subnet := map[string]int{"here": 0, "there": 1}[p.Spec.NodeName]
		if r.IntN(15) > 0 {
			p.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprintf("10.244.%d.%d", subnet, host+1)}}
			if r.IntN(2) == 0 {
				p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: fmt.Sprintf("fd00:244:0:%d::%x", subnet, host+1)})
			}
			p.Status.PodIP = p.Status.PodIPs[0].IP
		} else {
			p.Status.Phase = corev1.PodPending
		}
		o.pods = append(o.pods, p)
	}
	for i := range r.IntN(5) {
		o.policies = append(o.policies, randomPolicy(r, i))
	}
	return o
}

func randomSelector(r *rand.Rand, key string, values ...string) *metav1.LabelSelector {
	switch r.IntN(5) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: key, Operator: pick(r, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: []string{pick(r, values...), pick(r, values...)},
		}}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: pick(r, key, "none"), Operator: pick(r, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist),
		}}}
	default:
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: pick(r, values...)}}
	}
}

func randomPolicy(r *rand.Rand, i int) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: pick(r, "x", "y"), Name: fmt.Sprint("n", i)}}
	p.Spec.PodSelector = *randomSelector(r, "pod", "a", "b", "c")
	for range r.IntN(3) {
		p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: randomPeers(r), Ports: randomPorts(r)})
	}
	for range r.IntN(3) {
		p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: randomPeers(r), Ports: randomPorts(r)})
	}
	in, out := networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	p.Spec.PolicyTypes = pick(r, nil, []networkingv1.PolicyType{in}, []networkingv1.PolicyType{out}, []networkingv1.PolicyType{in, out})
	return p
}

func randomPeers(r *rand.Rand) []networkingv1.NetworkPolicyPeer {
	var out []networkingv1.NetworkPolicyPeer
	for range r.IntN(3) {
		var p networkingv1.NetworkPolicyPeer
		switch r.IntN(4) {
		case 0:
			p.PodSelector = randomSelector(r, "pod", "a", "b", "c")
		case 1:
			p.NamespaceSelector = randomSelector(r, "tier", "1", "2")
		case 2:
			p.PodSelector, p.NamespaceSelector = randomSelector(r, "pod", "a", "b", "c"), randomSelector(r, "ns", "x", "y", "z")
		default:
			p.IPBlock = pick(r,
				&networkingv1.IPBlock{CIDR: "0.0.0.0/0"},
				&networkingv1.IPBlock{CIDR: "::/0", Except: []string{"fd00:244::/64"}},
				&networkingv1.IPBlock{CIDR: "10.244.0.0/16", Except: []string{"10.244.0.0/30", "10.244.1.2/32", "10.244.0.2/31"}},
				&networkingv1.IPBlock{CIDR: "10.244.0." + strconv.Itoa(2+r.IntN(8)) + "/32"},
				&networkingv1.IPBlock{CIDR: "192.0.2.0/24", Except: []string{"192.0.2.0/25"}},
				&networkingv1.IPBlock{CIDR: "255.255.255.0/24", Except: []string{"255.255.255.255/32"}})
		}
		out = append(out, p)
	}
	return out
}

func randomPorts(r *rand.Rand) []networkingv1.NetworkPolicyPort {
	var out []networkingv1.NetworkPolicyPort
	for range r.IntN(3) {
		var p networkingv1.NetworkPolicyPort
		if r.IntN(3) > 0 {
			p.Protocol = new(pick(r, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP))
		}
		switch r.IntN(4) {
		case 0:
			p.Port = new(intstr.FromInt32(pick[int32](r, 80, 81)))
		case 1:
			p.Port = new(intstr.FromString(pick(r, "web", "dns")))
		case 2:
			p.Port, p.EndPort = new(intstr.FromInt32(pick[int32](r, 1, 80, 81))), new(pick[int32](r, 81, 65535))
		}
		out = append(out, p)
	}
	return out
}

// connections are those between all addresses there are, and some that no pod has.
func connections(o *oracle) []connection {
	addrs := []netip.Addr{
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("0.0.0.0"),
		netip.MustParseAddr("fd01::1"), netip.MustParseAddr("10.244.0.200"), netip.MustParseAddr("10.244.1.200"), netip.MustParseAddr("fd00:244::c8"),
	}
	for _, p := range o.pods {
		for _, ip := range p.Status.PodIPs {
			addrs = append(addrs, netip.MustParseAddr(ip.IP))
		}
	}
	var out []connection
	for _, client := range addrs {
		for _, server := range addrs {
			if client.Is4() != server.Is4() {
				continue
			}
			asked := []netip.Addr{server}
			if server.Is4() {
				asked = append(asked, o.dns[0])
			}
			for _, a := range asked {
				for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
					for _, port := range []uint16{1, 80, 81} {
						out = append(out, connection{client: client, server: server, asked: a, protocol: protocol, port: port})
					}
				}
			}
		}
	}
	return out
}
