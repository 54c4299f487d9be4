// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve answers requests by a table: it opens the ports that the table names, finds the route of each request and sends it
// to an endpoint. Touch it for sockets, TLS, proxying, and what is done when an endpoint fails.
package serve

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// Limits of what clients and backends may do.
const (
	// headerTime is how long a client may take for the header of a request, idleTime how long a connection is kept without one.
	headerTime = 30 * time.Second
	idleTime   = 75 * time.Second
	// bodyTime is how long a client may take for the next piece of a body.
	bodyTime = time.Minute
	// maxHeader is how large a header may be, of requests and of answers.
	maxHeader = 64 << 10
	// DrainTime is what requests have to end when their port is closed.
	DrainTime = 10 * time.Second
	// dialTime is how long an endpoint may take to accept a connection.
	dialTime = 3 * time.Second
	// acceptPause is the time between two tries to take a connection, after one that failed.
	acceptPause = 100 * time.Millisecond
	// maxIdle is how many connections to one endpoint are kept for the next request.
	maxIdle = 256
)

// Server serves tables, one after the other. Its methods are safe for concurrent use.
type Server struct {
	table   atomic.Pointer[table.Table]
	proxy   *proxy
	context context.Context // of all requests
	end     context.CancelFunc
	// drainTime is what requests have to end when their port is closed.
	drainTime time.Duration

	mu      sync.Mutex
	sockets map[netip.AddrPort]*socket // guarded by mu
	closing sync.WaitGroup
}

// New returns a server that has no port open.
func New() *Server {
	s := &Server{sockets: map[netip.AddrPort]*socket{}, drainTime: DrainTime}
	s.context, s.end = context.WithCancel(context.Background())
	s.table.Store(table.Build(table.Contents{}))
	s.proxy = newProxy(s.context, &s.table)
	return s
}

// Serve serves a table from now on. Ports that it does not name any more are closed, when their requests have ended. It returns
// why ports cannot be opened, which are tried again with the next table.
func (s *Server) Serve(t *table.Table) map[netip.AddrPort]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Store(t)
	s.proxy.keep(t)
	// What is in the way of a new port may be an old one of this server, with another protocol.
	for address, sock := range s.sockets {
		if l := t.Ports[address]; l == nil || l.Protocol != sock.protocol {
			delete(s.sockets, address)
			s.closeLocked(sock)
		}
	}
	failed := map[netip.AddrPort]error{}
	for address, l := range t.Ports {
		if s.sockets[address] != nil {
			continue
		}
		sock, err := s.open(address, l.Protocol)
		if err != nil {
			failed[address] = err
			continue
		}
		s.sockets[address] = sock
	}
	return failed
}

// Close ends all connections and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	for address, sock := range s.sockets {
		delete(s.sockets, address)
		s.closeLocked(sock)
	}
	s.mu.Unlock()
	stop := time.AfterFunc(time.Second, s.end) // what streams or was upgraded does not end by itself
	s.closing.Wait()
	stop.Stop()
	s.end()
	s.proxy.close()
}

// Addr is the address at which a port of the table is open; not valid if it is not. They differ for port 0.
func (s *Server) Addr(port netip.AddrPort) netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	sock := s.sockets[port]
	if sock == nil {
		return netip.AddrPort{}
	}
	return sock.open
}

// closeLocked stops accepting at once, and ends the connections in the background.
func (s *Server) closeLocked(sock *socket) {
	_ = sock.listener.Close()
	s.closing.Go(func() {
		limited, cancel := context.WithTimeout(s.context, s.drainTime)
		defer cancel()
		<-sock.ended // from here on it has all that came in
		sock.end(limited)
	})
}

// socket is one open port.
type socket struct {
	parent   *Server
	address  netip.AddrPort
	protocol table.Protocol
	port     int // that redirects name
	open     netip.AddrPort
	listener io.Closer
	// ended is closed when nothing more comes in. end waits until what came in before has ended, or the time is up, and then ends it.
	ended chan struct{}
	end   func(context.Context)
	// requests is held by each request to read, so that who gets it to write has waited for all of them, also for those that were
	// upgraded. A sync.WaitGroup may not count anew while somebody waits, as it would if a request came late.
	requests sync.RWMutex
}

// ServeHTTP answers one request.
func (s *socket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.requests.TryRLock() { // it came while its connection was closed as one without a request
		answer(w, http.StatusServiceUnavailable)
		return
	}
	defer s.requests.RUnlock()
	l := s.parent.table.Load().Ports[s.address]
	if l == nil {
		answer(w, http.StatusNotFound)
		return
	}
	host := table.Host(r.Host)
	if r.TLS != nil && l.Misdirected(table.Host(r.TLS.ServerName), host) {
		answer(w, http.StatusMisdirectedRequest)
		return
	}
	route := l.Find(host, r)
	if route == nil || r.Method == http.MethodConnect {
		answer(w, http.StatusNotFound)
		return
	}
	s.parent.proxy.serve(w, r, route, s.port, l.Certificate)
}

// answer is an answer of the router itself.
func answer(w http.ResponseWriter, code int) { http.Error(w, http.StatusText(code), code) }
