// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package conntrack forgets UDP flows that the kernel would go on sending to endpoints which no longer serve them. TCP
// needs none of this: a reset ends the connection. Change Stale to change which flows are forgotten.
package conntrack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/proxy/model"
	"minik8s.io/minik8s/pkg/proxy/netspace"
)

// Flow is the part of a UDP conntrack entry that matters: where the client sent its packet, and who answers.
type Flow struct {
	Destination netip.AddrPort
	Answering   netip.Addr
}

// View is what a snapshot says about UDP. It is immutable.
type View struct {
	virtual  map[netip.AddrPort]map[netip.Addr]bool
	nodePort map[uint16]map[netip.Addr]bool
}

// NewView extracts the UDP part of a snapshot.
func NewView(snap *model.Snapshot) *View {
	v := &View{virtual: map[netip.AddrPort]map[netip.Addr]bool{}, nodePort: map[uint16]map[netip.Addr]bool{}}
	for i := range snap.Ports {
		s := &snap.Ports[i]
		if s.Name.Protocol != corev1.ProtocolUDP {
			continue
		}
		serving := map[netip.Addr]bool{}
		for _, list := range [][]model.Endpoint{s.Cluster, s.Local} {
			for _, ep := range list {
				serving[ep.Addr.Addr()] = true
			}
		}
		v.virtual[netip.AddrPortFrom(s.ClusterIP, s.Port)] = serving
		for _, ips := range [][]netip.Addr{s.ExternalIPs, s.LoadBalancerIPs} {
			for _, ip := range ips {
				v.virtual[netip.AddrPortFrom(ip, s.Port)] = serving
			}
		}
		if s.NodePort != 0 {
			v.nodePort[s.NodePort] = serving
		}
	}
	return v
}

// Stale tells whether the flow goes to a service, but is answered by none of its endpoints. That covers an endpoint that
// went away and a flow that began before the service had any. Flows of services without endpoints are kept: nothing
// better could take them.
func (v *View) Stale(f Flow, onNode func(netip.Addr) bool) bool {
	serving, ok := v.virtual[f.Destination]
	if !ok {
		if serving, ok = v.nodePort[f.Destination.Port()]; !ok || !onNode(f.Destination.Addr()) {
			return false
		}
	}
	return len(serving) > 0 && !serving[f.Answering]
}

// Empty tells that there is no UDP service at all.
func (v *View) Empty() bool { return len(v.virtual) == 0 }

// Clean deletes the stale flows of the view's family in the network namespace at path and returns how many there were.
func Clean(path string, family model.Family, v *View) (deleted uint, err error) {
	err = netspace.Do(path, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_NETFILTER, unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("opening netlink: %w", err)
		}
		defer h.Close()
		inet := unix.AF_INET
		if family == model.IPv6 {
			inet = unix.AF_INET6
		}
		addrs, err := h.AddrList(nil, inet)
		if err != nil {
			return fmt.Errorf("listing the node's addresses: %w", err)
		}
		local := make(map[netip.Addr]bool, len(addrs))
		for _, a := range addrs {
			local[addrOf(a.IP)] = true
		}
		onNode := func(a netip.Addr) bool { return a.IsLoopback() || local[a] }
		deleted, err = h.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.InetFamily(inet), filter(func(f Flow) bool {
			return v.Stale(f, onNode)
		}))
		if err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: the flow expired meanwhile
			return fmt.Errorf("deleting stale conntrack entries: %w", err)
		}
		return nil
	})
	return deleted, err
}

type filter func(Flow) bool

var _ netlink.CustomConntrackFilter = filter(nil)

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (m filter) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	return f.Forward.Protocol == unix.IPPROTO_UDP && m(Flow{
		Destination: netip.AddrPortFrom(addrOf(f.Forward.DstIP), f.Forward.DstPort),
		Answering:   addrOf(f.Reverse.SrcIP),
	})
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
