// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"k8s.io/client-go/informers"

	"minik8s.io/minik8s/pkg/loadbalancer"
	"minik8s.io/minik8s/pkg/network/dump"
)

// LoadBalancerConfig is where Services of type LoadBalancer get their addresses from.
type LoadBalancerConfig struct {
	// Pool has CIDRs and ranges (FROM-TO), with commas between them; default, where a node runs, the first 10.X.0.0/24 from 10.160
	// upwards that no route of this machine and no other cluster uses, and of IPv6 likewise a /120 of fd00:10:X::.
	Pool string `json:"pool,omitempty"`
	// Announce is how machines of the networks that this one is in find the addresses: "none" or "arp"; default none: the pool may
	// be of none of these networks.
	Announce string `json:"announce,omitempty"`
}

// The ways to announce addresses.
const (
	announceNone = "none"
	announceARP  = "arp"
)

func (c LoadBalancerConfig) validate(n NetworkingConfig) error {
	if a := c.Announce; a != "" && a != announceNone && a != announceARP {
		return fmt.Errorf("loadBalancer.announce: it is %q, want %q or %q", a, announceNone, announceARP)
	}
	pool, err := c.prefixes()
	if err != nil {
		return err
	}
	for _, p := range pool {
		if p.Addr().Is6() && (p.Addr().Is4In6() || !p.Addr().IsGlobalUnicast() || !lastOf(p).IsGlobalUnicast()) {
			return fmt.Errorf("loadBalancer.pool: %s has addresses that belong to no machine alone, or to one link, or are of IPv4", p)
		}
	}
	for field, cidr := range map[string]string{"networking.podSubnet": n.PodSubnet, "networking.serviceSubnet": n.ServiceSubnet} {
		others, _ := parseRanges(cidr) // none if it is open, or told elsewhere
		for _, p := range pool {
			if slices.ContainsFunc(others, p.Overlaps) {
				return fmt.Errorf("loadBalancer.pool: %s meets %s %s", p, field, cidr)
			}
		}
	}
	return nil
}

// prefixes are those that the pool consists of, none if it is open.
func (c LoadBalancerConfig) prefixes() ([]netip.Prefix, error) {
	if c.Pool == "" {
		return nil, nil
	}
	var all []netip.Prefix
	for part := range strings.SplitSeq(c.Pool, ",") {
		part = strings.TrimSpace(part)
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			p, err := netip.ParsePrefix(part)
			if err != nil {
				return nil, fmt.Errorf("loadBalancer.pool: %w", err)
			}
			all = append(all, p.Masked())
			continue
		}
		first, err := netip.ParseAddr(strings.TrimSpace(from))
		if err != nil {
			return nil, fmt.Errorf("loadBalancer.pool: %w", err)
		}
		last, err := netip.ParseAddr(strings.TrimSpace(to))
		if err != nil {
			return nil, fmt.Errorf("loadBalancer.pool: %w", err)
		}
		if first.Is4() != last.Is4() || last.Less(first) {
			return nil, fmt.Errorf("loadBalancer.pool: %q is no range", part)
		}
		all = append(all, prefixesOf(first, last)...)
	}
	return all, nil
}

// prefixesOf returns what a range consists of, both ends included.
func prefixesOf(first, last netip.Addr) []netip.Prefix {
	var all []netip.Prefix
	for at := first; at.IsValid() && !last.Less(at); {
		p := netip.PrefixFrom(at, at.BitLen())
		for p.Bits() > 0 {
			larger := netip.PrefixFrom(at, p.Bits()-1)
			if larger.Masked().Addr() != at || last.Less(lastOf(larger)) {
				break
			}
			p = larger
		}
		all, at = append(all, p), lastOf(p).Next()
	}
	return all
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// settlePool chooses the pool of a cluster with a node, and refuses one whose addresses others would look for unasked.
func settlePool(c *Config, others []Config) error {
	l := &c.LoadBalancer
	if l.Pool == "" && c.NodeCount() > 0 {
		families := c.Networking.families()
		taken, err := destinations(families)
		if err != nil {
			return err
		}
		for _, o := range slices.Concat(others, []Config{*c}) {
			taken = append(taken, ranges(o)...)
		}
		var chosen []netip.Prefix
		for _, f := range families {
			p, err := freePool(f, taken)
			if err != nil {
				return err
			}
			chosen = append(chosen, p)
		}
		l.Pool = pairText(chosen)
	}
	pool, err := l.prefixes()
	if err != nil {
		return err
	}
	for _, o := range others {
		theirs, _ := o.LoadBalancer.prefixes() // what cannot be read is told to its owner
		for _, p := range pool {
			for _, t := range theirs {
				if p.Overlaps(t) {
					return &Problem{Cause: fmt.Sprintf("the pool %s meets %s, of cluster %q", p, t, o.Name), Remedy: "choose another loadBalancer.pool in the --config file"}
				}
			}
		}
	}
	if c.NodeCount() == 0 {
		return nil
	}
	return checkPool(pool, l.Announce == announceARP)
}

// ranges are what a cluster has of the machine's address space, as far as it is known.
func ranges(c Config) []netip.Prefix {
	all, _ := c.LoadBalancer.prefixes() // what cannot be read takes nothing
	for _, s := range []string{c.Networking.PodSubnet, c.Networking.ServiceSubnet, c.Networking.NodeSubnet} {
		own, _ := parseRanges(s)
		all = append(all, own...)
	}
	return all
}

// freePool returns the first 256 addresses of 10.X.0.0 or fd00:10:X:: from X = 160 upwards that overlap nothing.
func freePool(f family, taken []netip.Prefix) (netip.Prefix, error) {
	bits := map[family]int{four: 24, six: 120}[f]
next:
	for i := range 96 {
		p := netip.PrefixFrom(f.subnet(160+i).Addr(), bits)
		for _, t := range taken {
			if p.Overlaps(t) {
				continue next
			}
		}
		return p, nil
	}
	if f == six {
		return netip.Prefix{}, errors.New("no free /120 in fd00:10::/32: set loadBalancer.pool")
	}
	return netip.Prefix{}, errors.New("no free /24 in 10.0.0.0/8: set loadBalancer.pool")
}

// checkPool looks at the networks that this machine is in.
func checkPool(pool []netip.Prefix, announced bool) error {
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("listing network interfaces: %w", err)
	}
	for _, link := range links {
		list, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
		if err != nil || link.Attrs().Name == "lo" {
			continue
		}
		for _, a := range list {
			network, err := netip.ParsePrefix(a.IPNet.String())
			if err != nil || loadbalancer.Lent(a) {
				continue // it is of a pool, for as long as a Service has it
			}
			for _, p := range pool {
				if err := checkNetwork(p, network, link.Attrs().Name, announced); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkNetwork compares a part of the pool with a network of this machine, written as its address there.
func checkNetwork(pool, network netip.Prefix, link string, announced bool) error {
	if pool.Contains(network.Addr()) {
		return &Problem{
			Cause:  fmt.Sprintf("the pool %s of load balancers has %s, which is this machine's own address on %s", pool, network.Addr(), link),
			Remedy: "choose another loadBalancer.pool in the --config file",
		}
	}
	if !announced && pool.Overlaps(network) {
		return &Problem{
			Cause:  fmt.Sprintf("the pool %s of load balancers meets %s, the network of %s, where others would find its addresses", pool, network.Masked(), link),
			Remedy: "choose another loadBalancer.pool in the --config file, or say loadBalancer.announce: arp",
		}
	}
	return nil
}

// holdAddresses makes the part of a node that has the addresses of load balancers on the machine.
func (r *runner) holdAddresses(shared informers.SharedInformerFactory) (func(context.Context) error, error) {
	pool, err := r.config.LoadBalancer.prefixes()
	if err != nil {
		return nil, err
	}
	h, err := loadbalancer.New(loadbalancer.Config{
		Cluster: r.config.Name, Pool: pool, Services: shared.Core().V1().Services(), Announce: r.config.LoadBalancer.Announce == announceARP,
	})
	if err != nil {
		return nil, fmt.Errorf("building the holder of load balancers' addresses: %w", err)
	}
	return h.Start, nil
}

func purgeAddresses(c Config) error {
	pool, err := c.LoadBalancer.prefixes()
	if err != nil {
		return err
	}
	return loadbalancer.Purge(c.Name, pool, "")
}
