// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/dump"
)

// setLoopback gives this machine some addresses of ranges, which it and its pods reach, and takes all others of these ranges away.
func setLoopback(subnets []netip.Prefix, want []netip.Addr) error {
	lo, have, err := loopback()
	if err != nil {
		return err
	}
	var failed []error
	for _, h := range have {
		a, ok := netip.AddrFromSlice(h.IP)
		if a = a.Unmap(); ok && slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Contains(a) }) && !slices.Contains(want, a) {
			failed = append(failed, removeLoopback(a))
		}
	}
	for _, a := range want {
		if err := put(lo, have, a); err != nil {
			failed = append(failed, fmt.Errorf("adding %s: %w", a, err))
		}
	}
	return errors.Join(failed...)
}

// addLoopback gives this machine an address that is reachable from it and from its pods only.
func addLoopback(a netip.Addr) error {
	lo, have, err := loopback()
	if err != nil {
		return err
	}
	return put(lo, have, a)
}

// loopback is the loopback device, and the addresses that it has.
func loopback() (netlink.Link, []netlink.Addr, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, nil, fmt.Errorf("finding the loopback device: %w", err)
	}
	have, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(lo, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, nil, fmt.Errorf("listing addresses: %w", err)
	}
	return lo, have, nil
}

// put gives the loopback device an address, also if it has that as an earlier version made it: to replace it does not change its scope.
func put(lo netlink.Link, have []netlink.Addr, a netip.Addr) error {
	want := host(a)
	if slices.ContainsFunc(have, func(h netlink.Addr) bool { return h.IP.Equal(want.IP) && h.Scope != want.Scope }) {
		if err := removeLoopback(a); err != nil {
			return err
		}
	}
	return netlink.AddrReplace(lo, want)
}

func removeLoopback(a netip.Addr) error {
	link, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.AddrDel(link, host(a)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return nil
}

// host is an address by which nothing is sent but answers: the kernel would else prefer it as the source of packets to pods, also those of other
// clusters, whose connections would end with this one.
func host(a netip.Addr) *netlink.Addr {
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, Scope: unix.RT_SCOPE_HOST}
	if a.Is6() {
		// IPv6 knows that scope for ::1 only.
		addr.Scope, addr.ValidLft, addr.PreferedLft, addr.Flags = unix.RT_SCOPE_UNIVERSE, math.MaxUint32, 0, unix.IFA_F_NODAD
	}
	return addr
}
