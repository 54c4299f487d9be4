// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/dump"
)

// protocol marks routes of ours in the kernel (field rtm_protocol), so that others are never touched.
const protocol = netlink.RouteProtocol(110)

// priority is behind that of all usual routes: one that somebody has to the very same range counts.
const priority = 1 << 20

// machine is the network of a machine, as far as a cluster's pool is concerned. The addresses are on the loopback link: the
// kernel answers ARP for them on all others. Those of IPv6 that are announced are on the links where machines look for them, too: see lent.
// An unreachable route takes the rest of the pool.
type machine struct {
	cluster string
	pool    []netip.Prefix
	netNS   string
}

// hold makes the machine have the addresses and no others of the pool. It does as much as it can, and returns those that the machine has
// then by it: kept are those that it had before.
func (m machine) hold(want []netip.Addr) (kept, added []netip.Addr, err error) {
	k, err := m.open()
	if err != nil {
		return nil, nil, err
	}
	defer k.Close()
	lo, err := k.LinkByName("lo")
	if err != nil {
		return nil, nil, fmt.Errorf("finding the loopback link: %w", err)
	}
	have, foreign, err := m.held(k, lo)
	if err != nil {
		return nil, nil, err
	}
	errs := []error{m.route(k, len(want) > 0)}
	for _, ip := range want {
		if slices.Contains(have, ip) {
			kept = append(kept, ip)
			continue
		}
		if slices.Contains(foreign, ip) {
			continue
		}
		if err := k.AddrReplace(lo, m.address(ip)); err != nil {
			errs = append(errs, fmt.Errorf("adding address %s: %w", ip, err))
			continue
		}
		added = append(added, ip)
	}
	for _, ip := range have {
		if slices.Contains(want, ip) {
			continue
		}
		if err := k.AddrDel(lo, m.address(ip)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			errs = append(errs, fmt.Errorf("removing address %s: %w", ip, err))
		}
	}
	return kept, added, errors.Join(errs...)
}

// open returns the kernel of the namespace, for one use.
func (m machine) open() (*netlink.Handle, error) {
	if m.netNS == "" {
		k, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return nil, fmt.Errorf("opening netlink: %w", err)
		}
		return k, nil
	}
	ns, err := netns.GetFromPath(m.netNS)
	if err != nil {
		return nil, fmt.Errorf("opening network namespace %q: %w", m.netNS, err)
	}
	defer ns.Close()
	k, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening netlink in %q: %w", m.netNS, err)
	}
	return k, nil
}

// held are the addresses of the cluster on the loopback link, and those of the pool that somebody else has put there. Addresses of
// IPv6 have no label: what is of the pool is the cluster's.
func (m machine) held(k *netlink.Handle, lo netlink.Link) (own, foreign []netip.Addr, err error) {
	list, err := dump.Whole(func() ([]netlink.Addr, error) { return k.AddrList(lo, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range list {
		ip, ok := netip.AddrFromSlice(a.IP)
		if ip = ip.Unmap(); !ok {
			continue
		}
		switch ones, bits := a.Mask.Size(); {
		case ip.Is4() && a.Label == m.label(), !ip.Is4() && within(m.pool, ip) && ones == bits:
			own = append(own, ip)
		case within(m.pool, ip):
			foreign = append(foreign, ip)
		}
	}
	return own, foreign, nil
}

// label tells whose an address is. The kernel wants it to begin with the link's name, and has room for 15 characters.
func (m machine) label() string {
	sum := sha256.Sum256([]byte(m.cluster))
	return "lo:mk-" + hex.EncodeToString(sum[:4])
}

func (m machine) address(ip netip.Addr) *netlink.Addr {
	// The scope keeps the kernel from choosing it as the source of packets to elsewhere.
	a := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(ip.BitLen(), ip.BitLen())}, Scope: unix.RT_SCOPE_HOST}
	if ip.Is4() {
		a.Label = m.label()
	} else {
		// IPv6 knows host scope for ::1 only: there an address that is not to be preferred any more is the source of answers alone.
		a.Scope, a.Flags, a.ValidLft, a.PreferedLft = unix.RT_SCOPE_UNIVERSE, unix.IFA_F_NODAD, math.MaxUint32, 0
	}
	return a
}

// route adds the unreachable routes of the pool, or removes them.
func (m machine) route(k *netlink.Handle, wanted bool) error {
	var errs []error
	for _, p := range m.pool {
		r := &netlink.Route{
			Dst:  &net.IPNet{IP: p.Masked().Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())},
			Type: unix.RTN_UNREACHABLE, Protocol: protocol, Table: unix.RT_TABLE_MAIN, Priority: priority,
		}
		if wanted {
			if err := k.RouteAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
				errs = append(errs, fmt.Errorf("adding the unreachable route to %s: %w", p, err))
			}
			continue
		}
		if err := k.RouteDel(r); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("removing the unreachable route to %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}
