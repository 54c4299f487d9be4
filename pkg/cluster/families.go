// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// IPFamily says which IP addresses pods, Services and nodes have.
type IPFamily string

// The families of a cluster.
const (
	IPv4 IPFamily = "ipv4"
	IPv6 IPFamily = "ipv6"
	// Dual is both, IPv4 first.
	Dual IPFamily = "dual"
)

// family is one of IP addresses.
type family int

const (
	four family = netlink.FAMILY_V4 // the kernel's number
	six  family = netlink.FAMILY_V6
)

func (f family) String() string {
	if f == four {
		return "IPv4"
	}
	return "IPv6"
}

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return four
	}
	return six
}

// nodeBits is how long the prefix is of the range that a node has for its pods, as upstream's by default.
func (f family) nodeBits() int {
	if f == four {
		return 24
	}
	return 64
}

// subnet is the range number x of those that are tried by default: 10.X.0.0 or fd00:10:X::, where X is read as decimal in both, so that
// they look alike.
func (f family) subnet(x int) netip.Prefix {
	if f == four {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(x), 0, 0}), 16)
	}
	return netip.MustParsePrefix(fmt.Sprintf("fd00:10:%d::/48", byte(x)))
}

// Families are the names of those that a cluster has, IPv4 or IPv6, the primary first.
func (n NetworkingConfig) Families() []string {
	var all []string
	for _, f := range n.families() {
		all = append(all, f.String())
	}
	return all
}

// families of the cluster, the primary first: those of its ranges, and while these are open, what is said.
func (n NetworkingConfig) families() []family {
	for _, text := range []string{n.PodSubnet, n.ServiceSubnet, n.NodeSubnet} {
		if ranges, err := parseRanges(text); err == nil && len(ranges) > 0 {
			return rangeFamilies(ranges)
		}
	}
	switch n.IPFamily {
	case IPv6:
		return []family{six}
	case Dual:
		return []family{four, six}
	}
	return []family{four}
}

// says tells whether it is these families.
func (f IPFamily) says(families []family) bool {
	switch f {
	case "":
		return true
	case IPv4:
		return slices.Equal(families, []family{four})
	case IPv6:
		return slices.Equal(families, []family{six})
	}
	return len(families) == 2
}

// checkFamilies refuses ranges and addresses that are none, and such that have other families than the rest.
func (c Config) checkFamilies() error {
	n := c.Networking
	if f := n.IPFamily; f != "" && f != IPv4 && f != IPv6 && f != Dual {
		return fmt.Errorf("networking.ipFamily: it is %q, want %s, %s or %s", f, IPv4, IPv6, Dual)
	}
	want := n.families()
	for _, s := range []struct{ field, text string }{
		{"networking.podSubnet", n.PodSubnet}, {"networking.serviceSubnet", n.ServiceSubnet}, {"networking.nodeSubnet", n.NodeSubnet},
		{"kubelet.podCIDR", c.Kubelet.PodCIDR},
	} {
		ranges, err := parseRanges(s.text)
		if err != nil {
			return fmt.Errorf("%s: %w", s.field, err)
		}
		if s.field == "kubelet.podCIDR" { // which the Node has as it is, and the API takes no other
			for _, p := range ranges {
				if p != p.Masked() {
					return fmt.Errorf("%s: %s must not have bits set beyond the prefix length: did you mean %s?", s.field, p, p.Masked())
				}
			}
		}
		if have := rangeFamilies(ranges); len(ranges) > 0 && !slices.Equal(have, want) {
			return fmt.Errorf("%s: %s is of %s, want %s, as the cluster's other ranges are", s.field, s.text, named(have), named(want))
		}
	}
	ips, err := parseAddresses(c.Kubelet.NodeIP)
	if err != nil {
		return fmt.Errorf("kubelet.nodeIP: %w", err)
	}
	if have := addressFamilies(ips); len(ips) > 0 && !slices.Equal(have, want) {
		return fmt.Errorf("kubelet.nodeIP: %s is of %s, want %s, as the cluster's ranges are", c.Kubelet.NodeIP, named(have), named(want))
	}
	gateways, err := parseRanges(c.Router.GatewaySubnet)
	if err != nil {
		return fmt.Errorf("router.gatewaySubnet: %w", err)
	}
	for _, f := range rangeFamilies(gateways) { // one that is left out has a default
		if !slices.Contains(want, f) {
			return fmt.Errorf("router.gatewaySubnet: %s is of %s, want %s, as the cluster's ranges are", c.Router.GatewaySubnet, f, named(want))
		}
	}
	if !n.IPFamily.says(want) {
		return &Problem{
			Cause:  fmt.Sprintf("the ranges of cluster %q are of %s, which stays so as long as it exists, and not of networking.ipFamily, %s", c.Name, named(want), n.IPFamily),
			Remedy: "leave that out (--ip-family), or make the cluster anew, after minik8s down --purge",
		}
	}
	return nil
}

// named tells families.
func named(all []family) string {
	var names []string
	for _, f := range all {
		names = append(names, f.String())
	}
	return strings.Join(names, " and ")
}

// parseRanges reads a range, or one of each family with a comma between them, the primary first. Of nothing there are none.
func parseRanges(text string) ([]netip.Prefix, error) {
	return parsePair(text, netip.ParsePrefix, netip.Prefix.Addr)
}

// parseAddresses reads an address, or one of each family, like parseRanges.
func parseAddresses(text string) ([]netip.Addr, error) {
	return parsePair(text, netip.ParseAddr, func(a netip.Addr) netip.Addr { return a })
}

func parsePair[T any](text string, parse func(string) (T, error), address func(T) netip.Addr) (all []T, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		one, err := parse(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if a := address(one); a.Is4In6() || a.Zone() != "" {
			return nil, fmt.Errorf("%q is neither of IPv4 nor of IPv6 alone", part)
		}
		all = append(all, one)
	}
	if len(all) > 2 || len(all) == 2 && familyOf(address(all[0])) == familyOf(address(all[1])) {
		return nil, fmt.Errorf("%q has more than one of a family: give one, or one of IPv4 and one of IPv6", text)
	}
	return all, nil
}

// settledRanges reads ranges that a settled configuration has.
func settledRanges(field, text string) ([]netip.Prefix, error) {
	all, err := parseRanges(text)
	if err == nil && len(all) == 0 {
		err = errors.New("no range is given")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return all, nil
}

// pairText is what parsePair reads.
func pairText[T fmt.Stringer](all []T) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, one.String())
	}
	return strings.Join(texts, ",")
}

func rangeFamilies(all []netip.Prefix) (families []family) {
	for _, p := range all {
		families = append(families, familyOf(p.Addr()))
	}
	return families
}

func addressFamilies(all []netip.Addr) (families []family) {
	for _, a := range all {
		families = append(families, familyOf(a))
	}
	return families
}
