// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package routes leads packets for pods on other nodes to those nodes: directly in one network segment (host-gw), by a tunnel
// (package vxlan) if there is a router in between. Touch it to support another way between nodes.
package routes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/network/dump"
	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/network/vxlan"
)

// protocol marks routes of ours in the kernel (field rtm_protocol), so that others are never touched.
const protocol = netlink.RouteProtocol(109)

// resync is how often the kernel's routes are compared even if no node has changed.
const resync = 30 * time.Second

// Config of the routes of one node.
type Config struct {
	// NodeName is the node that the routes are on.
	NodeName string
	// ClusterCIDRs hold the pod ranges of all nodes: one, or one of each IP family.
	ClusterCIDRs []netip.Prefix
	// Nodes are watched; the caller starts the informer after New.
	Nodes coreinformers.NodeInformer
	// NetNS is the path of the node's network namespace. Default "": the process's own.
	NetNS string
	// Segments hold the addresses of the nodes that this one reaches without a router; the default route leads to the pods of all
	// others. Default: the kernel's routes say who is behind a router, and to those there is a tunnel.
	Segments []netip.Prefix
}

// BehindAnnotation of a Node is the address of the machine that leads to it, or one of each family with a comma between them, for nodes
// that do not reach it themselves: nodes which share a machine are in a segment of their own.
const BehindAnnotation = "minik8s.io/behind"

// Routes keeps the routes of one node.
type Routes struct {
	config  Config
	changed chan struct{}
	handler cache.ResourceEventHandlerRegistration
}

// New returns the routes of a node.
func New(c Config) (*Routes, error) {
	r := &Routes{config: c, changed: make(chan struct{}, 1)}
	poke := func() {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	handler, err := c.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { poke() },
		UpdateFunc: func(before, after any) {
			b, a := before.(*corev1.Node), after.(*corev1.Node)
			if !slices.Equal(routesOf(b), routesOf(a)) || b.Annotations[BehindAnnotation] != a.Annotations[BehindAnnotation] {
				poke()
			}
		},
		DeleteFunc: func(any) { poke() },
	})
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	r.handler = handler
	return r, nil
}

// Start keeps the routes until ctx ends. They stay then. It may be called once.
func (r *Routes) Start(ctx context.Context) error {
	defer func() { _ = r.config.Nodes.Informer().RemoveEventHandler(r.handler) }() // of an informer that has ended: nothing to remove
	if !cache.WaitForCacheSync(ctx.Done(), r.handler.HasSynced) {
		return nil
	}
	ticker := time.NewTicker(resync)
	defer ticker.Stop()
	for {
		if err := namespace.Do(r.config.NetNS, r.sync); err != nil {
			klog.FromContext(ctx).Error(err, "Routing to other nodes")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
		case <-ticker.C:
		}
	}
}

func (r *Routes) sync() error {
	nodes, err := r.config.Nodes.Lister().List(labels.Everything())
	if err != nil {
		return err
	}
	have, err := installed(r.config.ClusterCIDRs)
	if err != nil {
		return err
	}
	mine := own(nodes, r.config)
	has, err := addresses()
	if err != nil {
		return err
	}
	want, far := Wanted(nodes, r.config, onLink)
	want = from(want, mine, has)
	add, remove := Changes(want, have)
	var errs []error
	for _, self := range mine {
		cluster, is := containing(r.config.ClusterCIDRs, self.Pods.Addr())
		if !is {
			continue
		}
		peers := slices.DeleteFunc(slices.Clone(far), func(p vxlan.Peer) bool { return !cluster.Contains(p.Pods.Addr()) })
		errs = append(errs, vxlan.Tunnel{Cluster: cluster, Peer: vxlan.Peer{Node: self.Via, Pods: self.Pods}}.Sync(peers))
	}
	for _, w := range add {
		if err := netlink.RouteReplace(w.kernel()); err != nil {
			errs = append(errs, fmt.Errorf("adding route to %s via %s: %w", w.Pods, w.Via, err))
		}
	}
	for _, w := range remove {
		if err := del(w); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Route leads to the pods of a node.
type Route struct {
	Pods netip.Prefix
	Via  netip.Addr
	// From is the address that the node itself has towards those pods. The zero value leaves it to the kernel, which takes
	// one of the link's.
	From netip.Addr
}

// routesOf are those of a node: one for each of its ranges for which it has an address.
func routesOf(n *corev1.Node) (all []Route) {
	ranges := n.Spec.PodCIDRs
	if len(ranges) == 0 {
		ranges = []string{n.Spec.PodCIDR}
	}
	for _, text := range ranges {
		pods, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		for _, a := range n.Status.Addresses {
			via, err := netip.ParseAddr(a.Address)
			if a.Type == corev1.NodeInternalIP && err == nil && via.Is4() == pods.Addr().Is4() {
				all = append(all, Route{Pods: pods.Masked(), Via: via})
				break
			}
		}
	}
	return all
}

// own are the routes of the node itself, none if they are not known yet.
func own(nodes []*corev1.Node, c Config) []Route {
	for _, n := range nodes {
		if n.Name == c.NodeName {
			return routesOf(n)
		}
	}
	return nil
}

// containing is the range that an address is in.
func containing(ranges []netip.Prefix, a netip.Addr) (netip.Prefix, bool) {
	i := slices.IndexFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
	if i < 0 {
		return netip.Prefix{}, false
	}
	return ranges[i], true
}

// behind is the machine that leads to a node, by an address of the same family as another one.
func behind(n *corev1.Node, like netip.Addr) (netip.Addr, bool) {
	for text := range strings.SplitSeq(n.Annotations[BehindAnnotation], ",") {
		if machine, err := netip.ParseAddr(text); err == nil && machine.Is4() == like.Is4() {
			return machine, true
		}
	}
	return netip.Addr{}, false
}

// Wanted are the routes that a node needs to the others, and whom it needs a tunnel to. near says who is reached without a router, if
// the configuration does not. Ranges outside the cluster's are not followed.
func Wanted(nodes []*corev1.Node, c Config, near func(netip.Addr) bool) (direct map[netip.Prefix]Route, far []vxlan.Peer) {
	if len(c.Segments) > 0 {
		near = func(a netip.Addr) bool { _, is := containing(c.Segments, a); return is }
	}
	direct = map[netip.Prefix]Route{}
	for _, n := range nodes {
		if n.Name == c.NodeName {
			continue
		}
		for _, r := range routesOf(n) {
			if _, is := containing(c.ClusterCIDRs, r.Pods.Addr()); !is {
				continue
			}
			if machine, is := behind(n, r.Via); is && !near(r.Via) {
				r.Via = machine
			}
			switch {
			case near(r.Via):
				direct[r.Pods] = r
			case len(c.Segments) == 0:
				far = append(far, vxlan.Peer{Node: r.Via, Pods: r.Pods})
			}
		}
	}
	return direct, far
}

// from are routes from the address that the node is known by, so that pods see the node as they do where nodes have one link only. The kernel
// takes a route away with its address, and none that the node has not.
func from(direct map[netip.Prefix]Route, mine []Route, has []netip.Addr) map[netip.Prefix]Route {
	all := make(map[netip.Prefix]Route, len(direct))
	for p, r := range direct {
		for _, m := range mine {
			if m.Via.Is4() == r.Via.Is4() && slices.Contains(has, m.Via) {
				r.From = m.Via
			}
		}
		all[p] = r
	}
	return all
}

// addresses are those of all links.
func addresses() ([]netip.Addr, error) {
	list, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	var all []netip.Addr
	for _, a := range list {
		if ip, is := netip.AddrFromSlice(a.IP); is {
			all = append(all, ip.Unmap())
		}
	}
	return all, nil
}

// onLink tells whether packets for an address leave without a router. If the kernel does not know any way, it says so of the route.
func onLink(a netip.Addr) bool {
	ways, err := netlink.RouteGet(a.AsSlice())
	return err != nil || len(ways) == 0 || ways[0].Gw == nil
}

// Changes are what makes have into want.
func Changes(want, have map[netip.Prefix]Route) (add, remove []Route) {
	for p, w := range want {
		if have[p] != w {
			add = append(add, w)
		}
	}
	for p, h := range have {
		if _, ok := want[p]; !ok {
			remove = append(remove, h)
		}
	}
	return add, remove
}

func (r Route) kernel() *netlink.Route {
	return &netlink.Route{
		Dst: &net.IPNet{IP: r.Pods.Addr().AsSlice(), Mask: net.CIDRMask(r.Pods.Bits(), r.Pods.Addr().BitLen())},
		Gw:  r.Via.AsSlice(), Src: r.From.AsSlice(), Protocol: protocol,
	}
}

// installed are the routes of ours into some ranges.
func installed(ranges []netip.Prefix) (map[netip.Prefix]Route, error) {
	all := map[netip.Prefix]Route{}
	for _, cluster := range ranges {
		family := netlink.FAMILY_V4
		if cluster.Addr().Is6() {
			family = netlink.FAMILY_V6
		}
		list, err := dump.Whole(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
		})
		if err != nil {
			return nil, fmt.Errorf("listing routes: %w", err)
		}
		for _, k := range list {
			if k.Dst == nil {
				continue
			}
			pods, err := netip.ParsePrefix(k.Dst.String())
			if err != nil || !cluster.Contains(pods.Addr()) {
				continue
			}
			via, _ := netip.AddrFromSlice(k.Gw)
			from, _ := netip.AddrFromSlice(k.Src)
			all[pods] = Route{Pods: pods, Via: via.Unmap(), From: from.Unmap()}
		}
	}
	return all, nil
}

func del(r Route) error {
	if err := netlink.RouteDel(r.kernel()); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("removing route to %s: %w", r.Pods, err)
	}
	return nil
}

// Purge removes all routes into a cluster's ranges, and the tunnels.
func Purge(clusters []netip.Prefix) error {
	have, err := installed(clusters)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range have {
		errs = append(errs, del(r))
	}
	for _, cluster := range clusters {
		errs = append(errs, vxlan.Tunnel{Cluster: cluster}.Purge())
	}
	return errors.Join(errs...)
}
