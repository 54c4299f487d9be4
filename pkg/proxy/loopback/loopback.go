// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package loopback answers node ports on the loopback addresses of a node, by listening there and passing on what comes. The
// kernel could be made to route packets with a loopback source to pods (route_localnet), but then neighbours reach what listens
// on 127.0.0.1 too, unless a firewall rule keeps them off. Touch it when curl localhost:NODEPORT does not answer.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/network/namespace"
)

// Port is a node port.
type Port struct {
	Protocol corev1.Protocol
	// Listen is the port on a loopback address; connections and datagrams go on to Forward, the same port on an address of the
	// node, where the kernel's rules choose the endpoint.
	Listen, Forward netip.AddrPort
}

// dialTimeout is how long the way to an endpoint may take, pause the time between two tries of what fails: the process may have no
// file descriptors or memory left.
const (
	dialTimeout = 10 * time.Second
	pause       = 100 * time.Millisecond
)

// Server holds the listeners. It is not safe for concurrent use.
type Server struct {
	netNS string
	// idle is after how long a UDP flow is forgotten, as by the kernel's conntrack.
	idle time.Duration
	// maxFlows is how many peers one UDP port remembers.
	maxFlows  int
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	listeners map[Port]io.Closer
	running   sync.WaitGroup
}

// New returns a Server without listeners. netNS is the path of the network namespace of the node, empty for the process's own.
func New(netNS string) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	return &Server{netNS: netNS, idle: 2 * time.Minute, maxFlows: 1000, ctx: ctx, cancel: cancel, listeners: map[Port]io.Closer{}}
}

// Sync opens and closes listeners until they are those of the ports. SCTP is left out. Connections outlive their listener. A
// port that cannot be opened is reported and tried again at the next Sync.
func (s *Server) Sync(ports []Port) error {
	want := make(map[Port]bool, len(ports))
	for _, p := range ports {
		want[p] = true
	}
	maps.DeleteFunc(s.listeners, func(p Port, l io.Closer) bool {
		if !want[p] {
			_ = l.Close()
		}
		return !want[p]
	})
	var errs []error
	for p := range want {
		if s.listeners[p] != nil {
			continue
		}
		var l io.Closer
		var err error
		switch {
		case p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP:
			continue
		case p.Listen == p.Forward:
			err = errors.New("it would forward to itself: the node's address is the loopback address, so give another as kubelet.nodeIP")
		case p.Protocol == corev1.ProtocolTCP:
			l, err = s.openTCP(p)
		default:
			l, err = s.openUDP(p)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("opening node port on %s: %w", p.Listen, err))
			continue
		}
		s.listeners[p] = l
	}
	return errors.Join(errs...)
}

// Close closes all listeners and connections, and returns when none is left.
func (s *Server) Close() {
	s.cancel()
	for _, l := range s.listeners {
		_ = l.Close()
	}
	s.running.Wait()
}

func (s *Server) openTCP(p Port) (l net.Listener, err error) {
	err = namespace.Do(s.netNS, func() error {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(p.Listen))
		return err
	})
	if err != nil {
		return nil, err
	}
	s.running.Go(func() { s.accept(l, p) })
	return l, nil
}

// accept serves connections until the listener is closed.
func (s *Server) accept(l net.Listener, p Port) {
	for {
		client, err := l.Accept()
		if err == nil {
			s.running.Go(func() { s.forward(client, p) })
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		s.failed(err, "Accepting on a node port", p)
	}
}

// failed reports what may fail again at once, and waits a little.
func (s *Server) failed(err error, what string, p Port) {
	klog.FromContext(s.ctx).Error(err, what, "address", p.Listen)
	select {
	case <-time.After(pause):
	case <-s.ctx.Done():
	}
}

// forward copies both ways until both have ended. The end of one is passed on.
func (s *Server) forward(client net.Conn, p Port) {
	defer client.Close()
	server, err := s.dial("tcp", p)
	if err != nil {
		klog.FromContext(s.ctx).V(2).Info("No connection for a node port", "address", p.Listen, "err", err)
		return
	}
	defer server.Close()
	stop := context.AfterFunc(s.ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})
	defer stop()
	var answers sync.WaitGroup
	answers.Go(func() { pass(client, server) })
	pass(server, client)
	answers.Wait()
}

// pass copies until the end of from. An error ends both connections, for nobody would hear of it otherwise.
func pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err == nil {
		err = to.(*net.TCPConn).CloseWrite()
	}
	if err != nil {
		_ = to.Close()
		_ = from.Close()
	}
}

func (s *Server) dial(network string, p Port) (c net.Conn, err error) {
	err = namespace.Do(s.netNS, func() error {
		d := net.Dialer{Timeout: dialTimeout}
		c, err = d.DialContext(s.ctx, network, p.Forward.String())
		return err
	})
	return c, err
}

func (s *Server) openUDP(p Port) (l *net.UDPConn, err error) {
	err = namespace.Do(s.netNS, func() error {
		l, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(p.Listen))
		return err
	})
	if err != nil {
		return nil, err
	}
	r := &relay{Server: s, port: p, clients: l, flows: map[netip.AddrPort]*flow{}}
	s.running.Go(r.run)
	return l, nil
}

// socket is the part of *net.UDPConn by which a relay talks to clients.
type socket interface {
	ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error)
}

// relay passes datagrams on, from a socket of its own for each client, by which it tells the answers apart.
type relay struct {
	*Server
	port    Port
	clients socket

	mu    sync.Mutex
	flows map[netip.AddrPort]*flow // guarded by mu
}

// flow is the socket of a client.
type flow struct {
	net.Conn
	used time.Time // when the client has sent something last; only run uses it
}

// run reads datagrams until the socket is closed.
func (r *relay) run() {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, c := range r.flows {
			_ = c.Close()
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, client, err := r.clients.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			r.failed(err, "Reading from a node port", r.port)
			continue
		}
		f := r.flow(client)
		if f == nil {
			continue
		}
		// As anywhere on the way, datagrams may get lost.
		f.used = time.Now()
		_ = f.SetReadDeadline(f.used.Add(r.idle))
		_, _ = f.Write(buffer[:n])
	}
}

// flow returns the socket of a client, nil if there can be none. Only run calls it.
func (r *relay) flow(client netip.AddrPort) *flow {
	r.mu.Lock()
	f := r.flows[client]
	r.mu.Unlock()
	if f != nil {
		return f
	}
	c, err := r.dial("udp", r.port)
	if err != nil {
		klog.FromContext(r.ctx).V(2).Info("No socket for a node port", "address", r.port.Listen, "err", err)
		return nil
	}
	f = &flow{Conn: c}
	_ = f.SetReadDeadline(time.Now().Add(r.idle))
	r.mu.Lock()
	if len(r.flows) >= r.maxFlows {
		r.forgetOne()
	}
	r.flows[client] = f
	r.mu.Unlock()
	r.running.Go(func() { r.answer(client, f) })
	return f
}

// forgetOne forgets the client that has been silent for longest. The caller holds mu.
func (r *relay) forgetOne() {
	var oldest netip.AddrPort
	for client, f := range r.flows {
		if o := r.flows[oldest]; o == nil || f.used.Before(o.used) {
			oldest = client
		}
	}
	_ = r.flows[oldest].Close() // which ends answer
	delete(r.flows, oldest)
}

// answer passes answers back until there has been nothing for a while.
func (r *relay) answer(client netip.AddrPort, f *flow) {
	defer func() {
		_ = f.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.flows[client] == f { // it may have been forgotten, and have another since
			delete(r.flows, client)
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := f.Read(buffer)
		if err != nil {
			return // idle, refused, or closed
		}
		_ = f.SetReadDeadline(time.Now().Add(r.idle))
		if _, err := r.clients.WriteToUDPAddrPort(buffer[:n], client); errors.Is(err, net.ErrClosed) {
			return
		}
	}
}
