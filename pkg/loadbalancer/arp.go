// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

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
