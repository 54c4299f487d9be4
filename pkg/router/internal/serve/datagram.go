// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"minik8s.io/minik8s/pkg/router/internal/table"
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
	// key and endpoint are where it leads to.
	key, endpoint string
	seen          time.Time // when something was last sent or got; guarded by the mutex of the flows
}

// current tells whether its endpoint is still one of its backend's.
func (f *flow) current(t *table.Table) bool {
	b := t.Backends[f.key]
	return b != nil && slices.Contains(b.Endpoints, f.endpoint)
}

// serveDatagrams passes on the datagrams of a port.
func (s *socket) serveDatagrams(packets *net.UDPConn) {
	ctx, cancel := context.WithCancel(s.parent.context)
	f := &flows{socket: s, packets: packets, all: map[netip.AddrPort]*flow{}}
	s.end = func(context.Context) {} // nothing can be answered by a socket that is closed, so nothing is left of it
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

// of is the socket for a client towards the backend, which is chosen when its first datagram comes, and anew when its endpoint is
// gone; nil if there is none.
func (f *flows) of(ctx context.Context, client netip.AddrPort) net.Conn {
	now := f.parent.table.Load()
	known, full := f.known(client, now)
	if known != nil {
		return known.backend
	}
	l := now.Ports[f.address]
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
	backend, endpoint := f.parent.proxy.dial(ctx, chosen.Backend, "udp")
	if backend == nil {
		return nil
	}
	added := &flow{backend: backend, key: chosen.Backend.Key, endpoint: endpoint, seen: time.Now()}
	f.mu.Lock()
	f.all[client] = added
	f.mu.Unlock()
	f.running.Go(func() { f.answers(ctx, client, added) })
	return backend
}

// known is the flow of a client, nil if there is none that leads to an endpoint which there is now. Another one is ended: as long as
// its client sends it is not over. full says that there is no room for one more.
func (f *flows) known(client netip.AddrPort, now *table.Table) (known *flow, full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known = f.all[client]
	if known != nil && !known.current(now) {
		delete(f.all, client)
		_ = known.backend.Close()
		known = nil
	}
	if known != nil {
		known.seen = time.Now()
	}
	return known, len(f.all) >= maxFlows
}

// answers sends back what comes from a backend, until nothing has come or gone for a while.
func (f *flows) answers(ctx context.Context, client netip.AddrPort, of *flow) {
	defer func() {
		f.mu.Lock()
		if f.all[client] == of { // else another one has taken its place
			delete(f.all, client)
		}
		f.mu.Unlock()
		_ = of.backend.Close()
	}()
	defer context.AfterFunc(ctx, func() { _ = of.backend.Close() })()
	buffer := make([]byte, maxDatagram)
	for {
		f.mu.Lock()
		until := of.seen.Add(flowTime)
		f.mu.Unlock()
		_ = of.backend.SetReadDeadline(until)
		n, err := of.backend.Read(buffer)
		var timeout net.Error
		switch {
		case err == nil:
			f.mu.Lock()
			of.seen = time.Now()
			f.mu.Unlock()
			_, _ = f.packets.WriteToUDPAddrPort(buffer[:n], client)
		case errors.As(err, &timeout) && timeout.Timeout() && !f.idle(of):
		default:
			return // it is over, or the endpoint is gone: the next datagram chooses another one
		}
	}
}

// idle tells whether nothing has come or gone by a flow for a while.
func (f *flows) idle(of *flow) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(of.seen) >= flowTime
}
