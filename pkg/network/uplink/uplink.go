// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package uplink finds out about the link by which a machine or node reaches the outside. Touch it for what pods are to take over from it.
package uplink

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/dump"
)

// MTU is that of the link of a default route, of either IP family, in the network namespace of the thread; 0 if there is none.
func MTU() (int, error) {
	routes, err := dump.Whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return 0, fmt.Errorf("finding the default route: %w", err)
	}
	for _, r := range routes {
		if r.Dst != nil {
			if bits, _ := r.Dst.Mask.Size(); bits > 0 {
				continue
			}
		}
		if r.LinkIndex == 0 || r.Type != unix.RTN_UNICAST {
			continue // of several hops, or a refusal
		}
		link, err := netlink.LinkByIndex(r.LinkIndex)
		if none := (netlink.LinkNotFoundError{}); errors.As(err, &none) {
			continue // it has gone since
		}
		if err != nil {
			return 0, fmt.Errorf("finding the link of the default route: %w", err)
		}
		return link.Attrs().MTU, nil
	}
	return 0, nil
}
