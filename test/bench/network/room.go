// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// room is a network namespace in which a proxy works. All addresses of Services and endpoints are its own: what no rule sends
// elsewhere is refused at once, and every endpoint answers with the address at which it was reached.
type room struct {
	// path is how others find the namespace; work is done by the thread that is in there.
	path string
	work chan func()
	// api is where the API server is reached from within.
	api       string
	listeners []net.Listener
}

// newRoom makes a room with a door to an API server.
func newRoom(ctx context.Context, server string) (_ *room, err error) {
	r := &room{work: make(chan func())}
	if r.path, err = enter(r.work); err != nil {
		return nil, fmt.Errorf("making a network namespace: %w", err)
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if err := r.do(furnish); err != nil {
		return nil, fmt.Errorf("setting up a network namespace: %w", err)
	}
	backends, err := r.listen(ctx, fmt.Sprintf("0.0.0.0:%d", targetPort))
	if err != nil {
		return nil, err
	}
	go accept(backends, tell)
	door, err := r.listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	go accept(door, func(c net.Conn) { forward(c, u.Host) })
	r.api = "https://" + door.Addr().String()
	return r, nil
}

// enter makes a namespace that lives until work is closed, and returns its path. One thread does the work: to make one for each
// connection would take of the processors that the proxies have.
func enter(work <-chan func()) (path string, err error) {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err == nil {
			defer home.Close()
			err = unix.Unshare(unix.CLONE_NEWNET)
		}
		path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		if done <- err; err != nil {
			return // the thread ends
		}
		for f := range work {
			f()
		}
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return path, <-done
}

// do calls f on the thread in the namespace.
func (r *room) do(f func() error) error {
	done := make(chan error, 1)
	r.work <- func() { done <- f() }
	return <-done
}

// furnish makes the ranges local addresses.
func furnish() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	own := &netlink.Addr{IPNet: &net.IPNet{IP: nodeIP.AsSlice(), Mask: net.CIDRMask(32, 32)}}
	if err := netlink.AddrAdd(lo, own); err != nil {
		return err
	}
	for _, p := range []netip.Prefix{clusterIPs, endpointIPs} {
		if err := netlink.RouteAdd(&netlink.Route{
			LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST, Src: nodeIP.AsSlice(),
			Dst: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)},
		}); err != nil {
			return fmt.Errorf("routing %s: %w", p, err)
		}
	}
	return nil
}

func (r *room) listen(ctx context.Context, address string) (l net.Listener, err error) {
	err = r.do(func() error {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
		return err
	})
	if err == nil {
		r.listeners = append(r.listeners, l)
	}
	return l, err
}

// dial connects to an address in the room. What is not answered there at once is not waited for for long: it was thrown away.
func (r *room) dial(ctx context.Context, to netip.AddrPort) (c net.Conn, err error) {
	err = r.do(func() error {
		c, err = (&net.Dialer{Timeout: 100 * time.Millisecond}).DialContext(ctx, "tcp4", to.String())
		return err
	})
	return c, err
}

// accept serves connections until the listener is closed.
func accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go serve(c)
	}
}

// tell says which address the client has reached.
func tell(c net.Conn) {
	defer c.Close()
	_, _ = io.WriteString(c, c.LocalAddr().String()) // who does not listen has gone
}

// forward connects a client with somebody outside.
func forward(c net.Conn, address string) {
	defer c.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, c)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, server)
	_ = c.(*net.TCPConn).CloseWrite()
	<-done
}

// reach connects to a Service and returns which endpoint answered.
func (r *room) reach(ctx context.Context, service netip.Addr) (netip.Addr, error) {
	c, err := r.dial(ctx, netip.AddrPortFrom(service, servicePort))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return netip.Addr{}, err
	}
	text, err := io.ReadAll(c)
	if err != nil {
		return netip.Addr{}, err
	}
	a, err := netip.ParseAddrPort(string(text))
	return a.Addr(), err
}

// reaches waits until a Service leads to an endpoint, any if none is given.
func (r *room) reaches(ctx context.Context, service, endpoint netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond / 2)
	defer tick.Stop()
	for {
		got, err := r.reach(ctx, service)
		if err == nil && (got == endpoint || !endpoint.IsValid()) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s does not lead to %s: at last to %s: %w", service, endpoint, got, errors.Join(ctx.Err(), err))
		}
	}
}

func (r *room) close() {
	for _, l := range r.listeners {
		_ = l.Close()
	}
	close(r.work)
}
