// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package routes leads packets for pods on other nodes to those nodes (host-gw): nodes must be in one network segment.
// Touch it to support another way between nodes.
package routes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// protocol marks routes of ours in the kernel (field rtm_protocol), so that others are never touched.
const protocol = netlink.RouteProtocol(109)

// resync is how often the kernel's routes are compared even if no node has changed.
const resync = 30 * time.Second

// Config of the routes of one node.
type Config struct {
	// NodeName is the node that the routes are on.
	NodeName string
	// ClusterCIDR holds the pod ranges of all nodes.
	ClusterCIDR netip.Prefix
	// Nodes are watched; the caller starts the informer after New.
	Nodes coreinformers.NodeInformer
}

// Routes keeps the routes of one node.
type Routes struct {
	config  Config
	changed chan struct{}
	synced  cache.InformerSynced
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
			if route(before.(*corev1.Node)) != route(after.(*corev1.Node)) {
				poke()
			}
		},
		DeleteFunc: func(any) { poke() },
	})
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	r.synced = handler.HasSynced
	return r, nil
}

// Start keeps the routes until ctx ends. They stay then.
func (r *Routes) Start(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), r.synced) {
		return nil
	}
	ticker := time.NewTicker(resync)
	defer ticker.Stop()
	for {
		if err := r.sync(); err != nil {
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
	have, err := installed(r.config.ClusterCIDR)
	if err != nil {
		return err
	}
	add, remove := Changes(Wanted(nodes, r.config.NodeName, r.config.ClusterCIDR), have)
	var errs []error
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
}

// route is that of a node, zero if it has no range or no address yet.
func route(n *corev1.Node) Route {
	pods, err := netip.ParsePrefix(n.Spec.PodCIDR)
	if err != nil {
		return Route{}
	}
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if via, err := netip.ParseAddr(a.Address); err == nil && via.Is4() == pods.Addr().Is4() {
			return Route{Pods: pods.Masked(), Via: via}
		}
	}
	return Route{}
}

// Wanted are the routes that a node needs to the others. Ranges outside the cluster's are not followed.
func Wanted(nodes []*corev1.Node, self string, cluster netip.Prefix) map[netip.Prefix]Route {
	all := map[netip.Prefix]Route{}
	for _, n := range nodes {
		if r := route(n); n.Name != self && r.Via.IsValid() && cluster.Contains(r.Pods.Addr()) {
			all[r.Pods] = r
		}
	}
	return all
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
		Gw:  r.Via.AsSlice(), Protocol: protocol,
	}
}

// installed are the routes of ours into a range.
func installed(cluster netip.Prefix) (map[netip.Prefix]Route, error) {
	list, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	all := map[netip.Prefix]Route{}
	for _, k := range list {
		if k.Dst == nil {
			continue
		}
		pods, err := netip.ParsePrefix(k.Dst.String())
		if err != nil || !cluster.Contains(pods.Addr()) {
			continue
		}
		via, _ := netip.AddrFromSlice(k.Gw.To4())
		all[pods] = Route{Pods: pods, Via: via}
	}
	return all, nil
}

func del(r Route) error {
	if err := netlink.RouteDel(r.kernel()); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("removing route to %s: %w", r.Pods, err)
	}
	return nil
}

// Purge removes all routes into a cluster's range.
func Purge(cluster netip.Prefix) error {
	have, err := installed(cluster)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range have {
		errs = append(errs, del(r))
	}
	return errors.Join(errs...)
}
