// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"minik8s.io/minik8s/pkg/network/namespacetest"
	"minik8s.io/minik8s/pkg/network/vxlan"
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
	nodes := []*corev1.Node{
		node("self", "10.244.0.0/24", "192.168.0.1"),
		node("b", "10.244.1.0/24", "192.168.0.2"),
		node("behind a router", "10.244.4.0/24", "192.168.7.2"),
		node("no address", "10.244.2.0/24", ""),
		node("no range", "", "192.168.0.3"),
		node("elsewhere", "10.9.0.0/24", "192.168.0.4"),
		node("another family", "10.244.3.0/24", "fd00::1"),
	}
	b := Route{Pods: netip.MustParsePrefix("10.244.1.0/24"), Via: netip.MustParseAddr("192.168.0.2")}
	far := Route{Pods: netip.MustParsePrefix("10.244.4.0/24"), Via: netip.MustParseAddr("192.168.7.2")}
	shared := Route{Pods: netip.MustParsePrefix("10.244.5.0/24"), Via: netip.MustParseAddr("10.196.0.2")}
	nodes = append(nodes, node("shares b's machine", shared.Pods.String(), shared.Via.String()))
	nodes[len(nodes)-1].Annotations = map[string]string{BehindAnnotation: "192.168.0.2"}
	both := node("both families", "10.244.6.0/24", "192.168.0.6")
	both.Spec.PodCIDRs = []string{"10.244.6.0/24", "fd00:10:244:6::/64"}
	both.Status.Addresses = append(both.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00:9::6"})
	both.Annotations = map[string]string{BehindAnnotation: "192.168.0.2,fd00:9::2"}
	both4, both6 := Route{Pods: netip.MustParsePrefix("10.244.6.0/24"), Via: netip.MustParseAddr("192.168.0.6")}, Route{Pods: netip.MustParsePrefix("fd00:10:244:6::/64"), Via: netip.MustParseAddr("fd00:9::6")}
	both4ByB, both6ByB := Route{Pods: both4.Pods, Via: b.Via}, Route{Pods: both6.Pods, Via: netip.MustParseAddr("fd00:9::2")}
	nodes = append(nodes, both)
	byB := Route{Pods: shared.Pods, Via: b.Via}
	peer := func(r Route) vxlan.Peer { return vxlan.Peer{Node: r.Via, Pods: r.Pods} }
	in := func(segments ...string) func(netip.Addr) bool {
		return func(a netip.Addr) bool {
			return slices.ContainsFunc(segments, func(s string) bool { return netip.MustParsePrefix(s).Contains(a) })
		}
	}
	for _, tc := range []struct {
		name     string
		segments []netip.Prefix
		near     func(netip.Addr) bool
		direct   []Route
		far      []vxlan.Peer
	}{
		{name: "all are near", near: in("0.0.0.0/0", "::/0"), direct: []Route{b, far, shared, both4, both6}},
		{name: "one behind a router", near: in("192.168.0.0/24"), direct: []Route{b, byB, both4}, far: []vxlan.Peer{peer(far), peer(both6ByB)}},
		{name: "all behind a router", near: in(), far: []vxlan.Peer{peer(b), peer(far), peer(byB), peer(both4ByB), peer(both6ByB)}},
		{name: "b itself", near: in("192.168.0.0/24", "10.196.0.0/24", "fd00:9::/64"), direct: []Route{b, shared, both4, both6}, far: []vxlan.Peer{peer(far)}},
		{name: "others are the default route's", segments: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/24")}, near: in("0.0.0.0/0"), direct: []Route{b, byB, both4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			direct, far := Wanted(nodes, Config{NodeName: "self", ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")}, Segments: tc.segments}, tc.near)
			want := map[netip.Prefix]Route{}
			for _, r := range tc.direct {
				want[r.Pods] = r
			}
			equal := cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})
			if diff := cmp.Diff(want, direct, equal); diff != "" {
				t.Errorf("direct (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.far, far, equal); diff != "" {
				t.Errorf("far (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStart runs on a node that has another one beside it, and one behind a router, which goes.
func TestStart(t *testing.T) {
	machine, other := namespacetest.New(t), namespacetest.New(t)
	namespacetest.Link(t, 1500, namespacetest.End{At: machine, Name: "eth0", Address: "10.9.1.2/24"}, namespacetest.End{At: other, Name: "eth0", Address: "10.9.1.1/24"})
	if err := machine.Do(func() error {
		_, all, _ := net.ParseCIDR("0.0.0.0/0")
		return netlink.RouteAdd(&netlink.Route{Dst: all, Gw: net.ParseIP("10.9.1.1")})
	}); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(node("self", "10.244.1.0/24", "10.9.1.2"), node("beside", "10.244.2.0/24", "10.9.1.3"), node("far", "10.244.3.0/24", "10.9.2.2"))
	shared := informers.NewSharedInformerFactory(client, 0)
	cluster := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	r, err := New(Config{NodeName: "self", ClusterCIDRs: cluster, Nodes: shared.Core().V1().Nodes(), NetNS: machine.Path()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	shared.Start(ctx.Done())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	await := func(want ...string) {
		t.Helper()
		var got []string
		for range 500 {
			if got = ways(t, machine); slices.Equal(got, want) {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
		t.Errorf("routes %q, want %q", got, want)
	}
	beside := "10.244.2.0/24 via 10.9.1.3 on eth0 from 10.9.1.2"
	await(beside, "10.244.3.0/24 via 10.244.3.0 on a tunnel")
	if err := client.CoreV1().Nodes().Delete(ctx, "far", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(beside)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := machine.Do(func() error { return Purge(cluster) }); err != nil {
			t.Fatal(err)
		}
	}
	await()
}

// ways are the routes to pods.
func ways(t *testing.T, at *namespacetest.Namespace) (all []string) {
	t.Helper()
	if err := at.Do(func() error {
		list, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, r := range list {
			if r.Dst == nil || !strings.HasPrefix(r.Dst.String(), "10.244.") {
				continue
			}
			link, err := netlink.LinkByIndex(r.LinkIndex)
			if err != nil {
				return err
			}
			on := fmt.Sprintf("%s from %s", link.Attrs().Name, r.Src)
			if link.Type() == "vxlan" {
				on = "a tunnel"
			}
			all = append(all, fmt.Sprintf("%s via %s on %s", r.Dst, r.Gw, on))
		}
		return err
	}); err != nil && !errors.As(err, &netlink.LinkNotFoundError{}) { // one that goes meanwhile
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func TestFrom(t *testing.T) {
	t.Parallel()
	route := func(cidr, via, from string) Route {
		r := Route{Pods: netip.MustParsePrefix(cidr), Via: netip.MustParseAddr(via)}
		if from != "" {
			r.From = netip.MustParseAddr(from)
		}
		return r
	}
	four, six := netip.MustParseAddr("192.168.0.1"), netip.MustParseAddr("fd00:9::1")
	mine := []Route{{Pods: netip.MustParsePrefix("10.244.0.0/24"), Via: four}, {Pods: netip.MustParsePrefix("fd00:10:244::/64"), Via: six}}
	for _, tc := range []struct {
		name         string
		has          []netip.Addr
		from4, from6 string
	}{
		{name: "its own of each family", has: []netip.Addr{four, six}, from4: "192.168.0.1", from6: "fd00:9::1"},
		{name: "none that it has not", has: []netip.Addr{six}, from6: "fd00:9::1"},
		{name: "none at all"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			direct := map[netip.Prefix]Route{}
			want := map[netip.Prefix]Route{}
			for _, r := range []Route{route("10.244.1.0/24", "10.196.0.2", tc.from4), route("fd00:10:244:1::/64", "fd00:10:196::2", tc.from6)} {
				want[r.Pods] = r
				direct[r.Pods] = Route{Pods: r.Pods, Via: r.Via}
			}
			if diff := cmp.Diff(want, from(direct, mine, tc.has), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" {
				t.Error(diff)
			}
		})
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
