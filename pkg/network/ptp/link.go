// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/bandwidth"
	"minik8s.io/minik8s/pkg/network/dump"
	"minik8s.io/minik8s/pkg/network/namespace"
)

// podLink is the name of a pod's end, as everywhere in Kubernetes.
const podLink = "eth0"

// The pods' gateways. No interface needs to have the IPv4 one: pods know its hardware address.
var (
	gateway4 = netip.MustParseAddr("169.254.1.1")
	gateway6 = netip.MustParseAddr("fe80::1")
)

const (
	// fallbackMetric makes the route to unknown pods the last resort.
	fallbackMetric = 1 << 30
	// routeProtocol marks our routes; the number is free in /etc/iproute2/rt_protos.
	routeProtocol = 77
)

// connect gives the namespace at path its link and addresses. It completes what a killed predecessor began.
func connect(path, hostLink string, addrs []netip.Addr, mtu int, limits bandwidth.Limits) error {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return fmt.Errorf("opening network namespace %q: %w", path, err)
	}
	defer ns.Close()
	own, err := netns.Get()
	if err != nil {
		return fmt.Errorf("opening the node's network namespace: %w", err)
	}
	defer own.Close()
	if ns.Equal(own) { // the process that it is looked up by may be another one by now
		return fmt.Errorf("network namespace %q is the node's own", path)
	}
	pod, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("entering network namespace %q: %w", path, err)
	}
	defer pod.Close()

	if lo, err := pod.LinkByName("lo"); err != nil {
		return fmt.Errorf("finding the loopback: %w", err)
	} else if err := pod.LinkSetUp(lo); err != nil {
		return fmt.Errorf("setting up the loopback: %w", err)
	}
	host, peer, err := ensureVeth(ns, pod, hostLink, mtu)
	if err != nil {
		return err
	}
	var six bool
	for _, a := range addrs {
		six = six || a.Is6()
	}
	if six {
		if err := enableIPv6(path); err != nil {
			return err
		}
		// The gateway's address is the only one of the link, and nobody tells routes there.
		for _, s := range []struct{ name, value string }{{"disable_ipv6", "0"}, {"accept_dad", "0"}, {"accept_ra", "0"}} {
			if err := setSysctl("net/ipv6/conf/"+hostLink+"/"+s.name, s.value); err != nil {
				return err
			}
		}
		if err := addAddr(nil, host, gateway6, 64); err != nil {
			return err
		}
	}
	// Pods may have the right to send packets from any address; the node takes only those from the pod's own. The routes to its
	// addresses say which these are.
	for _, set := range []string{"proxy_arp", "rp_filter"} {
		if err := setSysctl("net/ipv4/conf/"+hostLink+"/"+set, "1"); err != nil {
			return err
		}
	}
	if limits != (bandwidth.Limits{}) { // before anything passes
		if err := bandwidth.Shape(hostLink, shaper(hostLink), limits); err != nil {
			return err
		}
	}
	if err := netlink.LinkSetUp(host); err != nil {
		return fmt.Errorf("setting up link %s: %w", hostLink, err)
	}
	if err := pod.LinkSetUp(peer); err != nil {
		return fmt.Errorf("setting up the pod's link: %w", err)
	}
	for _, a := range addrs {
		if err := connectAddr(pod, host, peer, a); err != nil {
			return fmt.Errorf("address %v: %w", a, err)
		}
	}
	return nil
}

// ensureVeth returns both ends of the pod's link. A link of the name that does not end in this namespace is replaced.
func ensureVeth(ns netns.NsHandle, pod *netlink.Handle, name string, mtu int) (host, peer netlink.Link, err error) {
	host, err = netlink.LinkByName(name)
	if err == nil {
		peer, err = pod.LinkByName(podLink)
		if err == nil && peer.Attrs().ParentIndex == host.Attrs().Index && host.Attrs().ParentIndex == peer.Attrs().Index {
			return host, peer, nil
		}
		if err := removeLink(name); err != nil {
			return nil, nil, err
		}
	} else if !isNoLink(err) {
		return nil, nil, fmt.Errorf("finding link %s: %w", name, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = name, mtu, hardwareAddr()
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: podLink, PeerNamespace: netlink.NsFd(ns), PeerMTU: uint32(mtu)}
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, nil, fmt.Errorf("adding link %s: %w", name, err)
	}
	if host, err = netlink.LinkByName(name); err != nil {
		return nil, nil, fmt.Errorf("finding link %s: %w", name, err)
	}
	if peer, err = pod.LinkByName(podLink); err != nil {
		return nil, nil, fmt.Errorf("finding the pod's link: %w", err)
	}
	return host, peer, nil
}

// hardwareAddr is an address for the node's end of a link, random and of nobody else (IEEE 802: locally administered, not a
// group). A link that has none of its own from the start gets one from udev a moment later (MACAddressPolicy of
// systemd.link(5)), and the pod's neighbour entry is for the one before.
func hardwareAddr() net.HardwareAddr {
	a := make(net.HardwareAddr, 6)
	_, _ = rand.Read(a) // never fails
	a[0] = a[0]&^1 | 2
	return a
}

// connectAddr gives the pod an address, with a default route in the pod and a route to it on the node. The neighbours
// are written down on both sides, so that nobody needs to ask for hardware addresses.
func connectAddr(pod *netlink.Handle, host, peer netlink.Link, a netip.Addr) error {
	gateway, all := gateway4, netip.MustParsePrefix("0.0.0.0/0")
	if a.Is6() {
		gateway, all = gateway6, netip.MustParsePrefix("::/0")
	}
	if err := addAddr(pod, peer, a, a.BitLen()); err != nil {
		return err
	}
	if err := addNeighbour(pod, peer, gateway, host.Attrs().HardwareAddr); err != nil {
		return err
	}
	if err := addNeighbour(nil, host, a, peer.Attrs().HardwareAddr); err != nil {
		return err
	}
	if a.Is4() {
		// The gateway is on no subnet of the pod's.
		if err := replaceRoute(pod, &netlink.Route{LinkIndex: peer.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: ipNet(netip.PrefixFrom(gateway, 32))}); err != nil {
			return err
		}
	}
	if err := replaceRoute(pod, &netlink.Route{LinkIndex: peer.Attrs().Index, Dst: ipNet(all), Gw: gateway.AsSlice(), Src: source(a)}); err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: host.Attrs().Index, Dst: ipNet(netip.PrefixFrom(a, a.BitLen())), Protocol: routeProtocol}
	if a.Is4() {
		route.Scope = netlink.SCOPE_LINK
	}
	return replaceRoute(nil, route)
}

// source is the preferred source address of a route; IPv6 addresses that were just added cannot be named yet, and are
// chosen anyway.
func source(a netip.Addr) net.IP {
	if a.Is4() {
		return a.AsSlice()
	}
	return nil
}

// at returns the given handle, or that of the node for nil.
func at(h *netlink.Handle) interface {
	AddrReplace(netlink.Link, *netlink.Addr) error
	NeighSet(*netlink.Neigh) error
	RouteReplace(*netlink.Route) error
} {
	if h == nil {
		return nodeHandle{}
	}
	return h
}

// nodeHandle speaks to the network namespace of the process.
type nodeHandle struct{}

func (nodeHandle) AddrReplace(l netlink.Link, a *netlink.Addr) error {
	return netlink.AddrReplace(l, a)
}
func (nodeHandle) NeighSet(n *netlink.Neigh) error     { return netlink.NeighSet(n) }
func (nodeHandle) RouteReplace(r *netlink.Route) error { return netlink.RouteReplace(r) }

func addAddr(h *netlink.Handle, link netlink.Link, a netip.Addr, bits int) error {
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}}
	if a.Is6() {
		addr.Flags = unix.IFA_F_NODAD // there is nobody on the link to have it twice, and detection takes a second
	}
	if err := at(h).AddrReplace(link, addr); err != nil {
		return fmt.Errorf("adding address %v to link %s: %w", a, link.Attrs().Name, err)
	}
	return nil
}

func addNeighbour(h *netlink.Handle, link netlink.Link, a netip.Addr, hardware net.HardwareAddr) error {
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	err := at(h).NeighSet(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, Family: family, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: hardware,
	})
	if err != nil {
		return fmt.Errorf("adding neighbour %v of link %s: %w", a, link.Attrs().Name, err)
	}
	return nil
}

func replaceRoute(h *netlink.Handle, r *netlink.Route) error {
	if err := at(h).RouteReplace(r); err != nil {
		return fmt.Errorf("adding route to %v: %w", r.Dst, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// enableIPv6 switches IPv6 on in a pod, which engines switch off in namespaces that they were told not to connect. The pod's link waits for
// nobody who might have its addresses, too.
func enableIPv6(netns string) error {
	return namespace.Do(netns, func() error {
		for _, name := range []string{"all", "default", "lo", podLink} {
			if err := setSysctl("net/ipv6/conf/"+name+"/disable_ipv6", "0"); err != nil {
				return err
			}
		}
		return setSysctl("net/ipv6/conf/"+podLink+"/accept_dad", "0")
	})
}

// removeLink removes a link, and with it its other end and its routes. Absence is success.
func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !isNoLink(err) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing link %s: %w", name, err)
	}
	return nil
}

// removeLinks removes the links of a kind whose names begin with prefix.
func removeLinks(kind, prefix string) error {
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("listing links: %w", err)
	}
	var errs []error
	for _, l := range links {
		if l.Type() == kind && strings.HasPrefix(l.Attrs().Name, prefix) {
			errs = append(errs, removeLink(l.Attrs().Name))
		}
	}
	return errors.Join(errs...)
}

func isNoLink(err error) bool {
	var none netlink.LinkNotFoundError
	return errors.As(err, &none) || errors.Is(err, os.ErrNotExist)
}

// fallbackRoutes answer for addresses of the node's ranges that no pod has; otherwise their packets would leave by the
// default route, and come back where it leads to a node that knows the range.
func (p *Plugin) fallbackRoutes() []*netlink.Route {
	var routes []*netlink.Route
	for _, r := range p.config.PodCIDRs {
		routes = append(routes, &netlink.Route{
			Dst: ipNet(r.Masked()), Type: unix.RTN_UNREACHABLE, Priority: fallbackMetric, Protocol: routeProtocol,
		})
	}
	return routes
}

func (p *Plugin) addFallbackRoutes() error {
	var errs []error
	for _, r := range p.fallbackRoutes() {
		errs = append(errs, replaceRoute(nil, r))
	}
	return errors.Join(errs...)
}

func (p *Plugin) removeFallbackRoutes() error {
	var errs []error
	for _, r := range p.fallbackRoutes() {
		if err := netlink.RouteDel(r); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("removing the route to %v: %w", r.Dst, err))
		}
	}
	return errors.Join(errs...)
}
