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
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/network/dump"
	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/proxy/model"
)

// Flow is the part of a UDP conntrack entry that matters: where the client sent its packet, and who answers.
type Flow struct {
	Destination netip.AddrPort
	Answering   netip.AddrPort
}

// View is what some Services say about UDP. The zero value is of none.
type View struct {
	virtual  map[netip.AddrPort]serving
	nodePort map[uint16]serving
}

type serving map[netip.AddrPort]bool

// Add takes a Service into the view. Of one that is not forwarded any more, gone, what it was before counts: nothing serves it.
func (v *View) Add(s *model.Service, gone bool) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name.Protocol != corev1.ProtocolUDP {
			continue
		}
		if v.virtual == nil {
			v.virtual, v.nodePort = map[netip.AddrPort]serving{}, map[uint16]serving{}
		}
		all := serving{}
		for _, addr := range p.Serving {
			all[addr] = !gone
		}
		v.virtual[netip.AddrPortFrom(p.ClusterIP, p.Port)] = all
		for _, ips := range [][]netip.Addr{p.ExternalIPs, p.LoadBalancerIPs} {
			for _, ip := range ips {
				v.virtual[netip.AddrPortFrom(ip, p.Port)] = all
			}
		}
		if p.NodePort != 0 {
			v.nodePort[p.NodePort] = all
		}
	}
}

// Stale tells whether the flow goes to a service, but is answered by none of its endpoints. That covers an endpoint that went away,
// a flow that began before the service had any, and a service that has none left: whoever goes on sending is to be told.
func (v *View) Stale(f Flow, onNode func(netip.Addr) bool) bool {
	all, ok := v.virtual[f.Destination]
	if !ok {
		if all, ok = v.nodePort[f.Destination.Port()]; !ok || !onNode(f.Destination.Addr()) {
			return false
		}
	}
	return !all[f.Answering]
}

// Empty tells that there is no UDP service at all.
func (v *View) Empty() bool { return len(v.virtual) == 0 }

// Clean deletes the stale flows of the view's family in the network namespace at path and returns how many there were.
func Clean(path string, family model.Family, v *View) (deleted uint, err error) {
	err = namespace.Do(path, func() error {
		if none() {
			return nil
		}
		h, err := netlink.NewHandle(unix.NETLINK_NETFILTER, unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("opening netlink: %w", err)
		}
		defer h.Close()
		inet := unix.AF_INET
		if family == model.IPv6 {
			inet = unix.AF_INET6
		}
		addrs, err := dump.Whole(func() ([]netlink.Addr, error) { return h.AddrList(nil, inet) })
		if err != nil {
			return fmt.Errorf("listing the node's addresses: %w", err)
		}
		local := make(map[netip.Addr]bool, len(addrs))
		for _, a := range addrs {
			local[addrOf(a.IP)] = true
		}
		onNode := func(a netip.Addr) bool { return a.IsLoopback() || local[a] }
		deleted, err = retry(func() (uint, error) {
			return h.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.InetFamily(inet), filter(func(f Flow) bool {
				return v.Stale(f, onNode)
			}))
		})
		return err
	})
	return deleted, err
}

// none tells that the network namespace of the calling thread has no flows, as that of a new node. Listing them would take as long as
// anywhere: the kernel has one table for all namespaces, and goes through it.
func none() bool {
	count, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
	return err == nil && strings.TrimSpace(string(count)) == "0"
}

// retry calls remove until the kernel has listed the whole table. What an interrupted listing shows is removed all the same.
func retry(remove func() (uint, error)) (deleted uint, err error) {
	_, err = dump.Whole(func() (uint, error) {
		n, err := remove()
		deleted += n
		return n, err
	})
	if err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: the flow expired meanwhile
		return deleted, fmt.Errorf("deleting stale conntrack entries: %w", err)
	}
	return deleted, nil
}

type filter func(Flow) bool

var _ netlink.CustomConntrackFilter = filter(nil)

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (m filter) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	return f.Forward.Protocol == unix.IPPROTO_UDP && m(Flow{
		Destination: netip.AddrPortFrom(addrOf(f.Forward.DstIP), f.Forward.DstPort),
		Answering:   netip.AddrPortFrom(addrOf(f.Reverse.SrcIP), f.Reverse.SrcPort),
	})
}

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
