// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package servicecidrs

import (
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
)

// prefixes of a ServiceCIDR: one, or one of each family.
func prefixes(cidr *networkingv1.ServiceCIDR) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range cidr.Spec.CIDRs {
		if p, err := netip.ParsePrefix(s); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}

// orphans tells whether an address in use is in one of the ranges that are to go and in none of the others.
func orphans(going, others []netip.Prefix, used []netip.Addr) bool {
	// Often a range goes that is part of a larger one: then no address has to be looked at.
	going = slices.DeleteFunc(slices.Clone(going), func(p netip.Prefix) bool {
		return slices.ContainsFunc(others, func(o netip.Prefix) bool { return o.Overlaps(p) && o.Bits() <= p.Bits() })
	})
	if len(going) == 0 {
		return false
	}
	return slices.ContainsFunc(used, func(ip netip.Addr) bool {
		in := func(p netip.Prefix) bool { return holds(p, ip) }
		return slices.ContainsFunc(going, in) && !slices.ContainsFunc(others, in)
	})
}

// holds tells whether a range can have given out an address: the first one it never gives out, nor the last one of
// IPv4.
func holds(p netip.Prefix, ip netip.Addr) bool {
	return p.Contains(ip) && p.Addr() != ip && (!ip.Is4() || ip.Next().IsValid() && p.Contains(ip.Next()))
}
