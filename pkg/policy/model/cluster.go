// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// cluster is what there is for policies to select.
type cluster struct {
	namespaces map[string]labels.Set
	// pods are those of the pod network by namespace, local those of this node. Pods that have no address are in local only.
	pods  map[string][]*pod
	local []*pod
}

type pod struct {
	namespace string
	labels    labels.Set
	addrs     []netip.Addr
	object    *corev1.Pod
}

// index finds the pods that policies are about. Those with hostNetwork count as their node, and what has ended has no
// address any more, whatever it says.
func index(node string, pods []*corev1.Pod, namespaces []*corev1.Namespace) *cluster {
	c := &cluster{namespaces: map[string]labels.Set{}, pods: map[string][]*pod{}}
	for _, n := range namespaces {
		c.namespaces[n.Name] = n.Labels
	}
	owners := map[netip.Addr]*corev1.Pod{}
	claims := make([][]netip.Addr, len(pods))
	for i, p := range pods {
		if !Networked(p) {
			continue
		}
		claims[i] = Addresses(p)
		for _, a := range claims[i] {
			if other := owners[a]; other == nil || outlives(p, other) {
				owners[a] = p
			}
		}
	}
	for i, p := range pods {
		if !Networked(p) {
			continue
		}
		q := &pod{namespace: p.Namespace, labels: p.Labels, object: p}
		for _, a := range claims[i] {
			if owners[a] == p {
				q.addrs = append(q.addrs, a)
			}
		}
		if len(q.addrs) > 0 {
			c.pods[p.Namespace] = append(c.pods[p.Namespace], q)
		}
		// One whose addresses are all another's by now will get none again.
		if p.Spec.NodeName == node && (len(q.addrs) > 0 || len(claims[i]) == 0) {
			c.local = append(c.local, q)
		}
	}
	return c
}

// Networked tells whether a pod has, or will have, an address of its own that means it.
func Networked(p *corev1.Pod) bool {
	return !p.Spec.HostNetwork && p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// Addresses are those of a pod, in order.
func Addresses(p *corev1.Pod) []netip.Addr {
	var out []netip.Addr
	add := func(s string) {
		if a, err := netip.ParseAddr(s); err == nil && !slices.Contains(out, a.Unmap()) {
			out = append(out, a.Unmap())
		}
	}
	add(p.Status.PodIP)
	for _, ip := range p.Status.PodIPs {
		add(ip.IP)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// outlives tells which of two pods an address belongs to that both have: an address is given again before everybody knows
// that who had it has ended.
func outlives(a, b *corev1.Pod) bool {
	if ending := a.DeletionTimestamp != nil; ending != (b.DeletionTimestamp != nil) {
		return !ending
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.UID > b.UID
}

// selectorOf returns a selector that selects nothing if it is invalid. Validation rules that out for NetworkPolicies, but for such as are
// there already; of ClusterNetworkPolicies nobody validates it.
func selectorOf(s *metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// nameOf tells selectors apart: that which selects nothing calls itself like the one that selects all.
func nameOf(s labels.Selector) string {
	if labels.MatchesNothing(s) {
		return "(nothing)"
	}
	return s.String()
}

// group returns the key of the pods that a peer selects, in the namespace of the policy unless it selects namespaces.
func (b *builder) group(namespace string, peer networkingv1.NetworkPolicyPeer) string {
	pods := labels.Everything()
	if peer.PodSelector != nil {
		pods = selectorOf(peer.PodSelector)
	}
	if peer.NamespaceSelector != nil {
		return b.everywhere(selectorOf(peer.NamespaceSelector), pods)
	}
	return b.collect("in "+namespace+", pods "+nameOf(pods), func(n string) bool { return n == namespace }, pods)
}

// everywhere returns the key of some pods of some namespaces.
func (b *builder) everywhere(namespaces, pods labels.Selector) string {
	key := "where " + nameOf(namespaces) + ", pods " + nameOf(pods)
	return b.collect(key, func(n string) bool { return namespaces.Matches(b.labelsOf(n)) }, pods)
}

// collect makes the group of a key, if nobody has yet.
func (b *builder) collect(key string, namespace func(string) bool, pods labels.Selector) string {
	if _, known := b.snap.Groups[key]; known {
		return key
	}
	var addrs []netip.Addr
	for n, list := range b.pods {
		if !namespace(n) {
			continue
		}
		for _, p := range list {
			if pods.Matches(p.labels) {
				addrs = append(addrs, p.addrs...)
			}
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	b.snap.Groups[key] = addrs
	return key
}

// labelsOf a namespace that is not known yet are those that it is sure to have.
func (c *cluster) labelsOf(namespace string) labels.Set {
	if set, ok := c.namespaces[namespace]; ok {
		return set
	}
	return labels.Set{corev1.LabelMetadataName: namespace}
}
