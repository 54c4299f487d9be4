// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dns is the cluster's name server, this project's CoreDNS. Services and EndpointSlices become an immutable index
// (internal/index), a question and the index become an answer (internal/answer), everything else is asked elsewhere
// (internal/forward). Touch this package for sockets and for what is watched.
//
// Pods reach it by the Service kube-system/kube-dns, which has the cluster's DNS address and no selector; its EndpointSlice
// names this node's address and the ports that Addrs reports.
package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/dns/internal/answer"
	"minik8s.io/minik8s/pkg/dns/internal/forward"
	"minik8s.io/minik8s/pkg/dns/internal/index"
)

// maxConcurrent bounds the forwarded questions in flight, as CoreDNS's default does for the memory they hold.
const maxConcurrent = 1000

// Server answers DNS questions. Methods are safe for concurrent use, except that Start may be called once.
type Server struct {
	config    Config
	zone      answer.Zone
	watcher   *watcher
	forwarder *forward.Forwarder
	forwards  chan struct{}
	// index is nil until everything was listed once.
	index atomic.Pointer[index.Index]

	mu      sync.Mutex
	sockets []socket // guarded by mu
}

type socket struct {
	tcp net.Listener
	udp net.PacketConn
}

func (s socket) addr() netip.AddrPort {
	ap := s.tcp.Addr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// New prepares a Server and registers its informers with the factory.
func New(config Config) (*Server, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	s := &Server{config: config, zone: config.zone(), forwards: make(chan struct{}, maxConcurrent)}
	s.watcher = newWatcher(config, &s.index)
	upstreams := func() []string { return nil }
	switch {
	case len(config.Upstreams) > 0:
		upstreams = func() []string { return forward.Foreign(config.Upstreams, s.own) }
	case config.ResolvConf != "none":
		upstreams = forward.ResolvConf(config.ResolvConf, s.own, config.Clock, func(err error) {
			klog.Background().Error(err, "Upstream name servers cannot be read")
		})
	}
	s.forwarder = forward.New(upstreams, config.Clock)
	return s, nil
}

// Listen opens the sockets, so that Addrs is known before Start. Start does it otherwise. Calling it again does nothing.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sockets) > 0 {
		return nil
	}
	for _, addr := range s.config.Addrs {
		sock, err := open(addr)
		if err != nil {
			s.closeLocked()
			return err
		}
		s.sockets = append(s.sockets, sock)
	}
	return nil
}

// open gives both sockets of one address the same port. A port that is free for TCP may be taken for UDP, so several are
// tried if any will do.
func open(addr string) (socket, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return socket{}, fmt.Errorf("dns: address %q: %w", addr, err)
	}
	attempts := 1
	if port == "0" {
		attempts = 16
	}
	for range attempts {
		var tcp net.Listener
		tcp, err = net.Listen("tcp", addr)
		if err != nil {
			return socket{}, fmt.Errorf("dns: listening on %q: %w", addr, err)
		}
		var udp net.PacketConn
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			return socket{tcp, udp}, nil
		}
		_ = tcp.Close()
	}
	return socket{}, fmt.Errorf("dns: listening on %q: %w", addr, err)
}

func (s *Server) closeLocked() {
	for _, sock := range s.sockets {
		_ = sock.tcp.Close()
		_ = sock.udp.Close()
	}
	s.sockets = nil
}

// Addrs are the addresses that were opened, in the order of the config; nil before Listen.
func (s *Server) Addrs() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []netip.AddrPort
	for _, sock := range s.sockets {
		out = append(out, sock.addr())
	}
	return out
}

// Synced tells that cluster names are answered; before that they get SERVFAIL.
func (s *Server) Synced() bool { return s.index.Load() != nil }

// Start answers until the context ends, and has closed its sockets when it returns.
func (s *Server) Start(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("dns"))
	if err := s.Listen(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	s.mu.Lock()
	sockets := s.sockets
	s.mu.Unlock()
	var servers []*dns.Server
	failed := make(chan error, 2*len(sockets))
	var wg sync.WaitGroup
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) { s.serve(ctx, w, req) })
	for _, sock := range sockets {
		for _, srv := range []*dns.Server{
			{Listener: sock.tcp, Net: "tcp", Handler: handler},
			{PacketConn: sock.udp, Net: "udp", Handler: handler, UDPSize: dns.DefaultMsgSize},
		} {
			started := make(chan struct{})
			srv.NotifyStartedFunc = func() { close(started) }
			servers = append(servers, srv)
			wg.Go(func() {
				if err := srv.ActivateAndServe(); err != nil {
					failed <- fmt.Errorf("dns: serving %s: %w", srv.Net, err)
				}
			})
			// Shutdown of a server that has not started yet would be lost.
			select {
			case <-started:
			case err := <-failed:
				failed <- err
			}
		}
	}
	wg.Add(1)
	var watchErr error
	go func() {
		defer wg.Done()
		if watchErr = s.watcher.run(ctx); watchErr != nil {
			cancel()
		}
	}()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	for _, srv := range servers {
		stop, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		// An error here is a server that failed before, or a client that keeps its connection open.
		_ = srv.ShutdownContext(stop)
		done()
	}
	s.mu.Lock()
	s.closeLocked()
	s.mu.Unlock()
	wg.Wait()
	return errors.Join(err, watchErr)
}

// own tells whether a name server is this one.
func (s *Server) own(server netip.AddrPort) bool {
	for _, ip := range s.config.ServiceIPs {
		if server.Addr() == ip {
			return true
		}
	}
	for _, a := range s.Addrs() {
		if server.Port() != a.Port() {
			continue
		}
		if server.Addr() == a.Addr() || a.Addr().IsUnspecified() && onHost(server.Addr()) {
			return true
		}
	}
	return false
}

func onHost(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, local := range addrs {
		if p, err := netip.ParsePrefix(local.String()); err == nil && p.Addr() == a {
			return true
		}
	}
	return false
}
