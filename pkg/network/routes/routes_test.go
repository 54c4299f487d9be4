// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(name, cidr, ip string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: cidr}}
	if ip != "" {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: ip}}
	}
	return n
}

func TestWanted(t *testing.T) {
	t.Parallel()
	got := Wanted([]*corev1.Node{
		node("self", "10.244.0.0/24", "192.168.0.1"),
		node("b", "10.244.1.0/24", "192.168.0.2"),
		node("no address", "10.244.2.0/24", ""),
		node("no range", "", "192.168.0.3"),
		node("elsewhere", "10.9.0.0/24", "192.168.0.4"),
		node("another family", "10.244.3.0/24", "fd00::1"),
	}, "self", netip.MustParsePrefix("10.244.0.0/16"))
	p := netip.MustParsePrefix("10.244.1.0/24")
	want := map[netip.Prefix]Route{p: {Pods: p, Via: netip.MustParseAddr("192.168.0.2")}}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" {
		t.Errorf("wanted (-want +got):\n%s", diff)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	at := func(cidr, via string) Route {
		return Route{Pods: netip.MustParsePrefix(cidr), Via: netip.MustParseAddr(via)}
	}
	of := func(rs ...Route) map[netip.Prefix]Route {
		m := map[netip.Prefix]Route{}
		for _, r := range rs {
			m[r.Pods] = r
		}
		return m
	}
	same, moved, old, fresh := at("10.244.1.0/24", "192.168.0.2"), at("10.244.2.0/24", "192.168.0.3"), at("10.244.3.0/24", "192.168.0.4"), at("10.244.4.0/24", "192.168.0.5")
	add, remove := Changes(of(same, moved, fresh), of(same, at("10.244.2.0/24", "192.168.0.9"), old))
	equal := cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})
	byRange := cmpopts.SortSlices(func(a, b Route) bool { return a.Pods.Addr().Less(b.Pods.Addr()) })
	if diff := cmp.Diff([]Route{moved, fresh}, add, equal, byRange); diff != "" {
		t.Errorf("added:\n%s", diff)
	}
	if diff := cmp.Diff([]Route{old}, remove, equal); diff != "" {
		t.Errorf("removed:\n%s", diff)
	}
}
