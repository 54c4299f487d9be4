// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Dial connects to somebody; it is that of net.Dialer.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer returns what connects by TCP from the network namespace at path. Only the making of a socket needs a thread that is in
// there: no number of connections that are waited for holds any. Names are looked up in the process's own namespace, as others than
// addresses are the same from everywhere, but for "localhost", which is the loopback of the namespace. An empty path is the
// process's own namespace.
func Dialer(path string) Dial {
	if path == "" {
		return (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, service, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		port, err := net.DefaultResolver.LookupPort(ctx, network, service)
		if err != nil {
			return nil, err
		}
		addrs, err := lookUp(ctx, network, host)
		if err != nil {
			return nil, err
		}
		var first error
		for _, a := range addrs {
			to := netip.AddrPortFrom(a, uint16(port))
			conn, err := dial(ctx, path, to)
			if err == nil {
				return conn, nil
			}
			if first == nil {
				first = &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: err}
			}
		}
		return nil, first
	}
}

// lookUp returns the addresses of a host, at least one.
func lookUp(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	if network == "tcp" {
		network = "ip"
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, network, host)
	for i, a := range addrs {
		addrs[i] = a.Unmap()
	}
	return addrs, err
}

// dial makes a socket in the namespace and connects it here.
func dial(ctx context.Context, path string, to netip.AddrPort) (net.Conn, error) {
	domain, sa := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		domain, sa = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	var fd int
	err := Do(path, func() (err error) {
		fd, err = unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		return os.NewSyscallError("socket", err)
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), to.String())
	defer f.Close() // the connection has a descriptor of its own
	if err := connect(ctx, f, sa); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

// connect waits until a socket that does not block is connected, or ctx ends.
func connect(ctx context.Context, f *os.File, to unix.Sockaddr) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) }) // of a file that is closed: nobody waits
	defer stop()
	begun := false
	var failed error
	err = raw.Write(func(fd uintptr) (done bool) {
		if !begun {
			begun = true
			failed = os.NewSyscallError("connect", unix.Connect(int(fd), to))
			return !errors.Is(failed, unix.EINPROGRESS)
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		if err == nil {
			if _, err := unix.Getpeername(int(fd)); errors.Is(err, unix.ENOTCONN) {
				return false // woken for nothing
			}
		}
		failed = os.NewSyscallError("connect", err)
		return true
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("connecting: %w", err)
	}
	return failed
}

// Listen listens by TCP in the network namespace at path, which lives as long as the listener does.
func Listen(ctx context.Context, path, address string) (l net.Listener, err error) {
	err = Do(path, func() error {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		return err
	})
	return l, err
}
