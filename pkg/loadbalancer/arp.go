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

// announce tells the networks that the addresses belong to where they are now, if they do not know: who knew another machine for one
// replaces it. Questions are answered by the kernel.
func (m machine) announce(addresses []netip.Addr, known *announced) error {
	tell := func() error {
		links, err := dump.Whole(netlink.LinkList)
		if err != nil {
			return fmt.Errorf("listing links: %w", err)
		}
		own, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
		if err != nil {
			return fmt.Errorf("listing the addresses of links: %w", err)
		}
		// Of no protocol, so that it receives nothing.
		socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening a socket for ARP: %w", err)
		}
		defer func() { _ = unix.Close(socket) }()
		return known.tell(announcements(addresses, links, own), func(a announcement) error { return send(socket, a) })
	}
	if m.netNS == "" {
		return tell()
	}
	return namespace.Do(m.netNS, tell)
}

// announcements are the addresses of IPv4 at each link where machines look for them: it has an own address in the same network.
func announcements(addresses []netip.Addr, links []netlink.Link, own []netlink.Addr) (all []announcement) {
	for _, link := range links {
		at, reached := placeOf(link.Attrs())
		if !reached {
			continue
		}
		for _, ip := range addresses {
			if ip.Is4() && slices.ContainsFunc(own, func(a netlink.Addr) bool { return a.LinkIndex == at.index && a.Contains(ip.AsSlice()) }) {
				all = append(all, announcement{ip, at})
			}
		}
	}
	return all
}

// placeOf tells whether machines can be reached by a link, and who they are told has an address. A link that is up and does not run, as
// its cable is out, drops what is sent and calls it sent.
func placeOf(link *netlink.LinkAttrs) (at place, reached bool) {
	const works = unix.IFF_UP | unix.IFF_RUNNING
	if link.RawFlags&works != works || link.RawFlags&unix.IFF_LOOPBACK != 0 || len(link.HardwareAddr) != len(at.mac) {
		return place{}, false
	}
	return place{link.Index, link.Name, [6]byte(link.HardwareAddr)}, true
}

// send does not wait for a link that is busy.
func send(socket int, a announcement) error {
	everyone := &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ARP), Ifindex: a.at.index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
	return unix.Sendto(socket, gratuitous(a.at.mac[:], a.ip), unix.MSG_DONTWAIT, everyone)
}

// gratuitous is the request that asks for the sender's own address (RFC 5227, ARP announcement).
func gratuitous(mac net.HardwareAddr, ip netip.Addr) []byte {
	p := []byte{0, unix.ARPHRD_ETHER, unix.ETH_P_IP >> 8, unix.ETH_P_IP & 0xff, 6, 4, 0, 1}
	p = append(append(p, mac...), ip.AsSlice()...)
	return append(append(p, make([]byte, 6)...), ip.AsSlice()...)
}

// networkOrder is a number as the kernel reads it from a packet.
func networkOrder(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}
