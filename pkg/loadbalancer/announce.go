// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/dump"
	"minik8s.io/minik8s/pkg/network/namespace"
)

// place is where machines look for addresses: a link of this machine, as it is now. When it is another one they have to be told again.
type place struct {
	index int
	name  string
	mac   [6]byte
}

// announcement is an address at a place.
type announcement struct {
	ip netip.Addr
	at place
}

// announced are the announcements that machines were told of.
type announced map[announcement]bool

// tell sends what is due and was not told yet. What cannot be sent is due the next time, too; what is not due any more is forgotten, and
// told if it is due again.
func (a *announced) tell(due []announcement, send func(announcement) error) error {
	told := announced{}
	var errs []error
	for _, one := range due {
		if !(*a)[one] {
			if err := send(one); err != nil {
				errs = append(errs, fmt.Errorf("announcing %s on %s: %w", one.ip, one.at.name, err))
				continue
			}
		}
		told[one] = true
	}
	*a = told
	return errors.Join(errs...)
}

// announce has the networks find the addresses: links get those of IPv6, so that the kernel answers who asks for them, as it does for those of
// IPv4 by itself, and machines are told where the addresses are now, if they do not know: who knew another machine for one replaces it.
func (m machine) announce(addresses []netip.Addr, known *announced) error {
	k, err := m.open()
	if err != nil {
		return err
	}
	defer k.Close()
	links, err := dump.Whole(k.LinkList)
	if err != nil {
		return fmt.Errorf("listing links: %w", err)
	}
	networks, err := networksOf(k)
	if err != nil {
		return err
	}
	all := announcements(addresses, links, networks)
	answered, added, err := m.answer(k, all)
	// What was away may be known elsewhere by now.
	maps.DeleteFunc(*known, func(a announcement, _ bool) bool { return slices.Contains(added, a.asked()) })
	due := slices.DeleteFunc(all, func(a announcement) bool {
		return !running(links, a.at) || !a.ip.Is4() && !slices.Contains(answered, a.asked())
	})
	return errors.Join(err, namespace.Do(m.netNS, func() error {
		// Of no protocol, so that it receives nothing.
		socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening a socket for announcements: %w", err)
		}
		defer func() { _ = unix.Close(socket) }()
		return known.tell(due, func(a announcement) error { return send(socket, a) })
	}))
}

// network is one that a link is in.
type network struct {
	link   int
	prefix netip.Prefix
}

// networksOf are those of the addresses of links. Of IPv6 a link may be in one of which it has no such address (RFC 5942): what is there says
// a route that leads to no router.
func networksOf(k *netlink.Handle) ([]network, error) {
	addresses, err := dump.Whole(func() ([]netlink.Addr, error) { return k.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of links: %w", err)
	}
	var all []network
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.IPNet.String()); err == nil && (p.Addr().Is4() || !p.IsSingleIP()) {
			all = append(all, network{a.LinkIndex, p.Masked()})
		}
	}
	routes, err := dump.Whole(func() ([]netlink.Route, error) { return k.RouteList(nil, netlink.FAMILY_V6) })
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil || r.Gw != nil || r.Via != nil || r.LinkIndex == 0 || r.Type != unix.RTN_UNICAST {
			continue
		}
		if p, err := netip.ParsePrefix(r.Dst.String()); err == nil && p.Bits() > 0 && !p.IsSingleIP() {
			all = append(all, network{r.LinkIndex, p})
		}
	}
	return all, nil
}

// announcements are the addresses at each link where machines look for them: it is in their network.
func announcements(addresses []netip.Addr, links []netlink.Link, networks []network) (all []announcement) {
	for _, link := range links {
		at, is := placeOf(link.Attrs())
		if !is {
			continue
		}
		for _, ip := range addresses {
			if slices.ContainsFunc(networks, func(n network) bool { return n.link == at.index && n.prefix.Contains(ip) }) {
				all = append(all, announcement{ip, at})
			}
		}
	}
	return all
}

// placeOf tells whether machines look for addresses by a link that has them, and who they are told has an address.
func placeOf(link *netlink.LinkAttrs) (at place, is bool) {
	if link.RawFlags&unix.IFF_UP == 0 || link.RawFlags&unix.IFF_LOOPBACK != 0 || len(link.HardwareAddr) != len(at.mac) {
		return place{}, false
	}
	return place{link.Index, link.Name, [6]byte(link.HardwareAddr)}, true
}

// running tells whether machines can be told anything at a place. A link that is up and does not run, as its cable is out, drops what is
// sent and calls it sent.
func running(links []netlink.Link, at place) bool {
	return slices.ContainsFunc(links, func(l netlink.Link) bool {
		return l.Attrs().Index == at.index && l.Attrs().RawFlags&unix.IFF_RUNNING != 0
	})
}

// send does not wait for a link that is busy.
func send(socket int, a announcement) error {
	packet, to := gratuitous(a.at.mac[:], a.ip), &unix.SockaddrLinklayer{
		Protocol: networkOrder(unix.ETH_P_ARP), Ifindex: a.at.index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255},
	}
	if a.ip.Is6() {
		packet = advertisement(a.at.mac[:], a.ip)
		to.Protocol, to.Addr = networkOrder(unix.ETH_P_IPV6), [8]byte{0x33, 0x33, 0, 0, 0, 1} // where all nodes are, of ff02::1
	}
	return unix.Sendto(socket, packet, unix.MSG_DONTWAIT, to)
}
