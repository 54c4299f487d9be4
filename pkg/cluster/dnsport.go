// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// dnsPort is where cluster DNS answers.
const dnsPort = 53

// checkDNSPort refuses a machine on which cluster DNS could not answer, for another program has its port on all addresses: that would end
// the whole cluster once the node runs. The address need not be there yet.
func checkDNSPort(ctx context.Context, at netip.AddrPort) error {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
		if at.Addr().Is6() {
			level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
		}
		var refused error
		err := c.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), level, option, 1) })
		return errors.Join(err, refused)
	}}
	stream, err := config.Listen(ctx, "tcp", at.String())
	if err == nil {
		_ = stream.Close()
		var packets net.PacketConn
		if packets, err = config.ListenPacket(ctx, "udp", at.String()); err == nil {
			_ = packets.Close()
		}
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return &Problem{
			Cause:  fmt.Sprintf("port %d, by which cluster DNS answers on %s, is in use by another program, on all addresses of this machine", at.Port(), at.Addr()),
			Remedy: "have that program listen on its own addresses only (dnsmasq: bind-dynamic), or stop it", Err: err,
		}
	}
	return nil // what else there may be is found out by DNS itself
}
