// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Sizes of the ranges of nodes, in bits of their prefix (--node-cidr-mask-size-ipv4, --node-cidr-mask-size-ipv6).
const (
	bits4, bits6 = 24, 64
	// maxDifference bounds the number of ranges of IPv6.
	maxDifference = 16
)

func bitsOf(p netip.Prefix) int {
	if p.Addr().Is4() {
		return bits4
	}
	return bits6
}

// check refuses a cluster's range that nodes cannot get parts of.
func check(cluster netip.Prefix) error {
	switch bits := bitsOf(cluster); {
	case cluster.Bits() > bits:
		return fmt.Errorf("cluster CIDR %v: it must be larger than the /%d of a node", cluster, bits)
	case !cluster.Addr().Is4() && bits-cluster.Bits() > maxDifference:
		return fmt.Errorf("cluster CIDR %v: the node CIDR size is too big", cluster)
	}
	return nil
}

// inUse are ranges that may not be given: those of the usual size, which are many, and all others.
type inUse struct {
	usual map[netip.Prefix]bool
	odd   []netip.Prefix
}

func (u *inUse) add(p netip.Prefix) {
	if p = p.Masked(); p.Bits() == bitsOf(p) {
		u.usual[p] = true
		return
	}
	u.odd = append(u.odd, p)
}

func (u *inUse) overlaps(p netip.Prefix) bool {
	if u.usual[p] {
		return true
	}
	for _, o := range u.odd {
		if o.Overlaps(p) {
			return true
		}
	}
	return false
}

// taken returns the ranges of nodes and Services.
func taken(nodes []*corev1.Node, services []netip.Prefix) *inUse {
	u := &inUse{usual: map[netip.Prefix]bool{}}
	for _, p := range services {
		u.add(p)
	}
	for _, node := range nodes {
		for _, s := range node.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(s); err == nil {
				u.add(p)
			}
		}
	}
	return u
}

// choose returns the first free range of each of the cluster's.
func choose(clusters []netip.Prefix, used *inUse) ([]netip.Prefix, error) {
	var chosen []netip.Prefix
	for _, c := range clusters {
		found := false
		for p := netip.PrefixFrom(c.Masked().Addr(), bitsOf(c)); p.IsValid() && c.Contains(p.Addr()); p = next(p) {
			if !used.overlaps(p) {
				chosen, found = append(chosen, p), true
				break
			}
		}
		if !found {
			return nil, errNone
		}
	}
	return chosen, nil
}

// next returns the prefix after p of the same size, or an invalid one after the last.
func next(p netip.Prefix) netip.Prefix {
	b := p.Addr().AsSlice()
	// p ends at a byte, see bits4 and bits6.
	for i := p.Bits()/8 - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			addr, _ := netip.AddrFromSlice(b)
			return netip.PrefixFrom(addr, p.Bits())
		}
	}
	return netip.Prefix{}
}
