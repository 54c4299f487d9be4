// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/dump"
)

// lent is an address of IPv6 that a link has besides the loopback. The kernel answers Neighbour Solicitations for what the asked link has, and
// for nothing else (RFC 4861), where it answers ARP for what any link has. So there is nothing that has to run: whoever is killed
// leaves addresses that are answered for, and the next one finds them.
type lent struct {
	ip   netip.Addr
	link int
}

func (a announcement) asked() lent { return lent{a.ip, a.at.index} }

// answer makes links have the addresses of IPv6 of the announcements, and no others of the pool. It does as much as it can, and returns those
// that links have then by it: added are those of them that they had not before.
func (m machine) answer(k *netlink.Handle, want []announcement) (all, added []lent, err error) {
	have, foreign, err := m.lent(k)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, w := range want {
		a := w.asked()
		if w.ip.Is4() || slices.Contains(foreign, a) {
			continue
		}
		if !slices.Contains(have, a) {
			if err := k.AddrAdd(nil, m.lend(a)); err != nil {
				errs = append(errs, fmt.Errorf("adding address %s to link %s: %w", a.ip, w.at.name, err))
				continue
			}
			added = append(added, a)
		}
		all = append(all, a)
	}
	for _, a := range have {
		if slices.ContainsFunc(want, func(w announcement) bool { return w.asked() == a }) {
			continue
		}
		if err := k.AddrDel(nil, m.lend(a)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.ENODEV) {
			errs = append(errs, fmt.Errorf("removing address %s from link %d: %w", a.ip, a.link, err))
		}
	}
	return all, added, errors.Join(errs...)
}

// withdraw takes the addresses from the links: nobody is to find them there.
func (m machine) withdraw() error {
	if !slices.ContainsFunc(m.pool, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		return nil // there are none
	}
	k, err := m.open()
	if err != nil {
		return err
	}
	defer k.Close()
	_, _, err = m.answer(k, nil)
	return err
}

// lent are the addresses of the cluster on links other than the loopback, and those of the pool that somebody else has put there.
func (m machine) lent(k *netlink.Handle) (own, foreign []lent, err error) {
	lo, err := k.LinkByName("lo")
	if err != nil {
		return nil, nil, fmt.Errorf("finding the loopback link: %w", err)
	}
	list, err := dump.Whole(func() ([]netlink.Addr, error) { return k.AddrList(nil, netlink.FAMILY_V6) })
	if err != nil {
		return nil, nil, fmt.Errorf("listing the addresses of links: %w", err)
	}
	for _, a := range list {
		ip, ok := netip.AddrFromSlice(a.IP)
		switch {
		case !ok || a.LinkIndex == lo.Attrs().Index || !within(m.pool, ip):
		case Lent(a):
			own = append(own, lent{ip, a.LinkIndex})
		default:
			foreign = append(foreign, lent{ip, a.LinkIndex})
		}
	}
	return own, foreign, nil
}

// lend is the address as a link gets it: as on the loopback, and without a route to it by that link.
func (m machine) lend(a lent) *netlink.Addr {
	address := m.address(a.ip)
	address.LinkIndex = a.link
	address.Flags |= unix.IFA_F_NOPREFIXROUTE
	return address
}

// Lent tells whether an address of a link is one that a Holder has put there for machines to find it, and not the machine's own. Nobody else
// has one for good that is out of use from the beginning.
func Lent(a netlink.Addr) bool {
	const kind = unix.IFA_F_PERMANENT | unix.IFA_F_DEPRECATED | unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE
	ones, bits := a.Mask.Size()
	return a.IP.To4() == nil && ones == bits && a.Flags&kind == kind
}

// advertisement is the Neighbour Advertisement that nobody has asked for, of a machine to all others (RFC 4861, 7.2.6). It overrides what they
// know. It comes from the address itself, as the kernel's answers do, and with the header of IPv6, in which 255 hops prove that no router
// has passed it on.
func advertisement(mac net.HardwareAddr, ip netip.Addr) []byte {
	const (
		override   = 0x20
		linkOption = 2 // the option that has the target's address on the link, in units of eight bytes
	)
	everyone := netip.IPv6LinkLocalAllNodes()
	body := append([]byte{136, 0, 0, 0, override, 0, 0, 0}, ip.AsSlice()...)
	body = append(append(body, linkOption, 1), mac...)
	header := []byte{6 << 4, 0, 0, 0, 0, byte(len(body)), unix.IPPROTO_ICMPV6, 255}
	ends := append(ip.AsSlice(), everyone.AsSlice()...)
	binary.BigEndian.PutUint16(body[2:], checksum(ends, []byte{0, 0, 0, byte(len(body)), 0, 0, 0, unix.IPPROTO_ICMPV6}, body))
	return slices.Concat(header, ends, body)
}

// checksum is that of the Internet (RFC 1071), over parts of even length.
func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, p := range parts {
		for i := 0; i < len(p); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
