// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/network/namespace"
)

// announce tells the networks that the addresses belong to where they are now: who knew another machine for one replaces it.
// Questions are answered by the kernel.
func (m machine) announce(addresses []netip.Addr) error {
	tell := func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("listing links: %w", err)
		}
		var errs []error
		for _, link := range links {
			errs = append(errs, announceOn(link.Attrs(), on(link, addresses)))
		}
		return errors.Join(errs...)
	}
	if m.netNS == "" {
		return tell()
	}
	return namespace.Do(m.netNS, tell)
}

// on are the IPv4 addresses that machines at a link look for there.
func on(link netlink.Link, addresses []netip.Addr) []netip.Addr {
	attrs := link.Attrs()
	if attrs.Flags&net.FlagUp == 0 || attrs.Flags&net.FlagLoopback != 0 || len(attrs.HardwareAddr) != 6 {
		return nil
	}
	own, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return nil // it has gone
	}
	var all []netip.Addr
	for _, ip := range addresses {
		for _, a := range own {
			if ip.Is4() && a.Contains(ip.AsSlice()) {
				all = append(all, ip)
				break
			}
		}
	}
	return all
}

func announceOn(link *netlink.LinkAttrs, addresses []netip.Addr) error {
	if len(addresses) == 0 {
		return nil
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket for ARP: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	everyone := &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ARP), Ifindex: link.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
	for _, ip := range addresses {
		if err := unix.Sendto(socket, gratuitous(link.HardwareAddr, ip), 0, everyone); err != nil {
			return fmt.Errorf("announcing %s on %s: %w", ip, link.Name, err)
		}
	}
	return nil
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
