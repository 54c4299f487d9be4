// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package vxlan leads packets for pods to nodes that are behind a router, which does not know the pods' ranges, in UDP packets between
// the nodes (RFC 7348). Touch it to carry them otherwise; who is behind a router is for package routes to say.
//
// Nothing is learned and nobody is asked: the hardware address of a node's end is made from the node's address, so that each node can
// write down where the others are. Whoever can send UDP packets to a node with the address of another one can send packets to its pods,
// as with every VXLAN: the network between the nodes has to be trusted.
package vxlan

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/dump"
)

const (
	// Port is that of UDP which packets are sent to: of Linux' own VXLAN, and so of most of Kubernetes' networks.
	Port = 8472
	// Overhead is by how many bytes a packet grows between nodes of IPv4: headers of IP, UDP, VXLAN and Ethernet. That of IPv6 is larger
	// by another 20.
	Overhead = 20 + 8 + 8 + 14
	// protocol marks our routes, so that others are never touched.
	protocol = netlink.RouteProtocol(111)
)

// Tunnel is the end of one node.
type Tunnel struct {
	// Cluster is the range of all pods of a family, by which the nodes of a cluster know one another. The packets between nodes are of the
	// same family.
	Cluster netip.Prefix
	// The node at this end. What it sends itself has the address of its end: with its own, answers would not come back by the tunnel,
	// and machines that check source addresses would drop them.
	Peer
}

// Peer is a node: its address, and the range of its pods.
type Peer struct {
	Node netip.Addr
	Pods netip.Prefix
}

// gateway is the address of a node's end: the first of its pods' range, which no pod has.
func (p Peer) gateway() netip.Addr { return p.Pods.Masked().Addr() }

// Name is that of the link.
func (t Tunnel) Name() string { return fmt.Sprintf("mkvx%06x", t.id()) }

// id is the VXLAN network identifier (24 bits): two clusters of a machine have different ranges.
func (t Tunnel) id() int {
	sum := sha256.Sum256([]byte(t.Cluster.Masked().String()))
	return max(1, int(binary.BigEndian.Uint32(sum[:])>>8))
}

// hardware is the hardware address of a node's end.
func (t Tunnel) hardware(node netip.Addr) net.HardwareAddr {
	sum := sha256.Sum256(append(node.AsSlice(), t.Cluster.Masked().String()...))
	return append(net.HardwareAddr{sum[0]&^1 | 2}, sum[1:6]...)
}

// Sync makes the peers those that are reached by the tunnel: there is no link without any. It works in the network namespace of the
// calling thread, and goes on after errors.
func (t Tunnel) Sync(peers []Peer) error {
	if len(peers) == 0 {
		return t.Purge()
	}
	link, err := t.ensureLink()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range peers {
		if err := t.add(link, p); err != nil {
			errs = append(errs, fmt.Errorf("leading packets for %s to %s: %w", p.Pods, p.Node, err))
		}
	}
	return errors.Join(append(errs, t.removeOthers(link, peers))...)
}

// Purge removes the link, and with it all that leads to it.
func (t Tunnel) Purge() error {
	link, err := netlink.LinkByName(t.Name())
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !isNoLink(err) {
		return fmt.Errorf("removing link %s: %w", t.Name(), err)
	}
	return nil
}

func isNoLink(err error) bool {
	var none netlink.LinkNotFoundError
	return errors.As(err, &none) || errors.Is(err, unix.ENODEV)
}

// ensureLink returns the link, which is up. One of another node's address, or on another link than that address, is made anew.
func (t Tunnel) ensureLink() (netlink.Link, error) {
	name := t.Name()
	link, err := netlink.LinkByName(name)
	right := true
	if err == nil {
		right, err = t.right(link)
	}
	if !right && err == nil {
		if err := t.Purge(); err != nil {
			return nil, err
		}
		link, err = netlink.LinkByName(name)
	}
	if isNoLink(err) {
		link, err = t.addLink(name, t.hardware(t.Node))
	}
	if err != nil {
		return nil, fmt.Errorf("making link %s: %w", name, err)
	}
	bits := t.gateway().BitLen()
	own := &netlink.Addr{IPNet: &net.IPNet{IP: t.gateway().AsSlice(), Mask: net.CIDRMask(bits, bits)}}
	if t.six() {
		own.Flags = unix.IFA_F_NODAD // nobody would answer, and the address is wanted now
	}
	if err := netlink.AddrReplace(link, own); err != nil {
		return nil, fmt.Errorf("adding address %s to link %s: %w", t.gateway(), name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("setting up link %s: %w", name, err)
	}
	return link, nil
}

// right tells whether a link is as addLink makes it. While no link has the node's address, it stays on the one that had it.
func (t Tunnel) right(link netlink.Link) (bool, error) {
	have, is := link.(*netlink.Vxlan)
	if !is || have.HardwareAddr.String() != t.hardware(t.Node).String() {
		return false, nil
	}
	under, err := linkOf(t.Node)
	if errors.Is(err, errNoAddress) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return have.VtepDevIndex == under.Attrs().Index && have.MTU == t.mtu(under), nil
}

// mtu is what the packets in the tunnel may have over a link.
func (t Tunnel) mtu(under netlink.Link) int {
	if t.six() {
		return under.Attrs().MTU - Overhead - 20
	}
	return under.Attrs().MTU - Overhead
}

func (t Tunnel) addLink(name string, hardware net.HardwareAddr) (netlink.Link, error) {
	under, err := linkOf(t.Node)
	if err != nil {
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = name, hardware, t.mtu(under)
	err = netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: t.id(), VtepDevIndex: under.Attrs().Index, SrcAddr: t.Node.AsSlice(), Port: Port, Learning: false,
	})
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	return netlink.LinkByName(name)
}

func (t Tunnel) six() bool { return t.Cluster.Addr().Is6() }

// family is that of an address, in the kernel's numbers.
func family(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

var errNoAddress = errors.New("no link has the node's address")

// linkOf is the link that has an address. The error is errNoAddress if none has.
func linkOf(a netip.Addr) (netlink.Link, error) {
	all, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, family(a)) })
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, have := range all {
		if have.IP.Equal(a.AsSlice()) {
			return netlink.LinkByIndex(have.LinkIndex)
		}
	}
	return nil, fmt.Errorf("%w %s", errNoAddress, a)
}

// add writes down where a peer is. The route is last: nothing takes it before it leads somewhere.
func (t Tunnel) add(link netlink.Link, p Peer) error {
	index, hardware := link.Attrs().Index, t.hardware(p.Node)
	forward := &netlink.Neigh{
		LinkIndex: index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, State: netlink.NUD_PERMANENT, IP: p.Node.AsSlice(), HardwareAddr: hardware,
	}
	if err := netlink.NeighSet(forward); err != nil {
		return fmt.Errorf("writing down where %s is: %w", hardware, err)
	}
	neighbour := &netlink.Neigh{
		LinkIndex: index, Family: family(p.gateway()), State: netlink.NUD_PERMANENT, IP: p.gateway().AsSlice(), HardwareAddr: hardware,
	}
	if err := netlink.NeighSet(neighbour); err != nil {
		return fmt.Errorf("adding neighbour %s: %w", p.gateway(), err)
	}
	if err := netlink.RouteReplace(t.route(link, p)); err != nil {
		return fmt.Errorf("adding a route: %w", err)
	}
	return nil
}

func (t Tunnel) route(link netlink.Link, p Peer) *netlink.Route {
	pods := p.Pods.Masked()
	return &netlink.Route{
		LinkIndex: link.Attrs().Index, Dst: &net.IPNet{IP: pods.Addr().AsSlice(), Mask: net.CIDRMask(pods.Bits(), pods.Addr().BitLen())},
		Gw: p.gateway().AsSlice(), Flags: int(netlink.FLAG_ONLINK), Src: t.gateway().AsSlice(), Protocol: protocol,
	}
}

// removeOthers removes what leads to nodes that are no peers any more: routes first.
func (t Tunnel) removeOthers(link netlink.Link, peers []Peer) error {
	ranges, gateways, ends := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range peers {
		ranges[p.Pods.Masked().String()] = true
		gateways[p.gateway().String()] = true
		ends[t.hardware(p.Node).String()+" "+p.Node.String()] = true
	}
	index := link.Attrs().Index
	routes, err := dump.Whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(family(t.gateway()), &netlink.Route{Protocol: protocol, LinkIndex: index}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_OIF)
	})
	if err != nil {
		return fmt.Errorf("listing routes: %w", err)
	}
	var errs []error
	for _, r := range routes {
		if r.Dst != nil && !ranges[r.Dst.String()] {
			errs = append(errs, unless(netlink.RouteDel(&r), unix.ESRCH))
		}
	}
	neighbours, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(index, family(t.gateway())) })
	if err != nil {
		return fmt.Errorf("listing neighbours: %w", err)
	}
	for _, n := range neighbours {
		if n.State == netlink.NUD_PERMANENT && !gateways[n.IP.String()] {
			errs = append(errs, unless(netlink.NeighDel(&n), unix.ENOENT))
		}
	}
	forwards, err := dump.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighList(index, unix.AF_BRIDGE) })
	if err != nil {
		return fmt.Errorf("listing nodes of the tunnel: %w", err)
	}
	for _, f := range forwards {
		if !ends[f.HardwareAddr.String()+" "+f.IP.String()] {
			errs = append(errs, unless(netlink.NeighDel(&f), unix.ENOENT))
		}
	}
	return errors.Join(errs...)
}

// unless is err, unless it says that there is nothing to remove.
func unless(err, gone error) error {
	if errors.Is(err, gone) {
		return nil
	}
	return err
}
