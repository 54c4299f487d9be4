// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxFlows is how many clients a port of UDP has at a time; of more nothing is passed on.
	maxFlows = 4096
	// flowTime is how long a client that sends nothing and gets nothing is remembered.
	flowTime = time.Minute
	// maxDatagram is the longest that there is.
	maxDatagram = 64 << 10
)

// flows are the clients of a port of UDP, each with a socket of its own towards the backend, by which answers find their way.
type flows struct {
	*socket
	packets *net.UDPConn
	running sync.WaitGroup

	mu  sync.Mutex
	all map[netip.AddrPort]*flow // guarded by mu
}

// flow is one of them.
type flow struct {
	backend net.Conn
	seen    time.Time // when something was last sent or got; guarded by the mutex of the flows
}

// serveDatagrams passes on the datagrams of a port.
func (s *socket) serveDatagrams(packets *net.UDPConn) {
	ctx, cancel := context.WithCancel(s.parent.context)
	f := &flows{socket: s, packets: packets, all: map[netip.AddrPort]*flow{}}
	s.end = func(context.Context) { cancel() } // nothing can be answered by a socket that is closed
	go func() {
		defer close(s.ended)
		defer f.running.Wait()
		defer cancel()
		buffer := make([]byte, maxDatagram)
		for {
			n, client, err := packets.ReadFromUDPAddrPort(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue // an earlier answer did not reach its client
			}
			if to := f.of(ctx, client); to != nil {
				_, _ = to.Write(buffer[:n])
			}
		}
	}()
}

// of is the socket for a client towards the backend, which is chosen when its first datagram comes; nil if there is none.
func (f *flows) of(ctx context.Context, client netip.AddrPort) net.Conn {
	f.mu.Lock()
	known, full := f.all[client], len(f.all) >= maxFlows
	if known != nil {
		known.seen = time.Now()
	}
	f.mu.Unlock()
	if known != nil {
		return known.backend
	}
	l := f.parent.table.Load().Ports[f.address]
	if l == nil || full {
		return nil
	}
	route := l.Stream("")
	if route == nil {
		return nil
	}
	chosen := route.Choose()
	if chosen == nil || chosen.Backend == nil {
		return nil
	}
	backend := f.parent.proxy.dial(ctx, chosen.Backend, "udp")
	if backend == nil {
		return nil
	}
	f.mu.Lock()
	f.all[client] = &flow{backend: backend, seen: time.Now()}
	f.mu.Unlock()
	f.running.Go(func() { f.answers(ctx, client, backend) })
	return backend
}

// answers sends back what comes from a backend, until nothing has come or gone for a while.
func (f *flows) answers(ctx context.Context, client netip.AddrPort, backend net.Conn) {
	defer func() {
		f.mu.Lock()
		delete(f.all, client)
		f.mu.Unlock()
		_ = backend.Close()
	}()
	defer context.AfterFunc(ctx, func() { _ = backend.Close() })()
	buffer := make([]byte, maxDatagram)
	for {
		f.mu.Lock()
		until := f.all[client].seen.Add(flowTime)
		f.mu.Unlock()
		_ = backend.SetReadDeadline(until)
		n, err := backend.Read(buffer)
		var timeout net.Error
		switch {
		case err == nil:
			f.mu.Lock()
			f.all[client].seen = time.Now()
			f.mu.Unlock()
			_, _ = f.packets.WriteToUDPAddrPort(buffer[:n], client)
		case errors.As(err, &timeout) && timeout.Timeout() && !f.idle(client):
		default:
			return // it is over, or the endpoint is gone: the next datagram chooses another one
		}
	}
}

// idle tells whether nothing has come from a client for a while.
func (f *flows) idle(client netip.AddrPort) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.all[client].seen) >= flowTime
}
