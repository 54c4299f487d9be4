// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"minik8s.io/minik8s/pkg/network/dump"
)

// setLoopback gives this machine some addresses of ranges, which it and its pods reach, and takes all others of these ranges away.
func setLoopback(subnets []netip.Prefix, want []netip.Addr) error {
	link, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback device: %w", err)
	}
	have, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("listing addresses: %w", err)
	}
	var failed []error
	for _, h := range have {
		a, ok := netip.AddrFromSlice(h.IP)
		if a = a.Unmap(); ok && slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Contains(a) }) && !slices.Contains(want, a) {
			failed = append(failed, removeLoopback(a))
		}
	}
	for _, a := range want {
		if err := addLoopback(a); err != nil {
			failed = append(failed, fmt.Errorf("adding %s: %w", a, err))
		}
	}
	return errors.Join(failed...)
}
