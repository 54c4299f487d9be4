// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package hostport

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/dump"
)

// forgetFlows has the kernel forget the UDP flows to a port of this machine. Rules are asked for the first packet of a flow only:
// a client that goes on sending would reach the pod of before for as long as it does, or nobody, if it began before there was a
// pod. Flows that were right begin anew with their next packet.
func forgetFlows(inet int, port uint16) error {
	addrs, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, inet) })
	if err != nil {
		return fmt.Errorf("listing the node's addresses: %w", err)
	}
	_, err = dump.Whole(func() (uint, error) { // what an interrupted listing shows is removed all the same
		return netlink.ConntrackDeleteFilters(netlink.ConntrackTable, netlink.InetFamily(inet), toPort{port: port, addrs: addrs})
	})
	if err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: the flow expired meanwhile
		return fmt.Errorf("forgetting UDP flows to port %d: %w", port, err)
	}
	return nil
}

// toPort matches UDP flows that were sent to a port at one of the addresses.
type toPort struct {
	port  uint16
	addrs []netlink.Addr
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (m toPort) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	to := f.Forward
	return to.Protocol == unix.IPPROTO_UDP && to.DstPort == m.port &&
		(to.DstIP.IsLoopback() || slices.ContainsFunc(m.addrs, func(a netlink.Addr) bool { return a.IP.Equal(to.DstIP) }))
}
