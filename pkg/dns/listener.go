// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/network/namespace"
)

// ListenConfig is where questions are taken.
type ListenConfig struct {
	// Addr is listened on for UDP and TCP. It must be an address of its own, such as 10.244.0.1:53: answers leave from where
	// the questions came to. Port 0 takes a free port, the same for both.
	Addr netip.AddrPort
	// NetworkNamespace is the path of the network namespace in which Addr is. Default: that of the process.
	NetworkNamespace string
}

// Listener answers at one address from what its Server knows. Serve may be called once.
type Listener struct {
	server  *Server
	addr    netip.AddrPort
	tcp     net.Listener
	udp     *net.UDPConn
	machine machine
}

// Listen opens the sockets of an address. Serve closes them, or Close if it is not called.
func (s *Server) Listen(config ListenConfig) (*Listener, error) {
	if !config.Addr.Addr().IsValid() || config.Addr.Addr().IsUnspecified() {
		return nil, fmt.Errorf("dns: cannot listen on %q: an address is required", config.Addr)
	}
	l := &Listener{server: s}
	l.machine.list = func() ([]netip.Addr, error) { return linkAddresses(config.NetworkNamespace) }
	open := func() error { return l.open(config.Addr) }
	var err error
	if config.NetworkNamespace == "" {
		err = open()
	} else {
		err = namespace.Do(config.NetworkNamespace, open)
	}
	if err != nil {
		return nil, fmt.Errorf("dns: listening on %s: %w", config.Addr, err)
	}
	l.addr = l.tcp.Addr().(*net.TCPAddr).AddrPort()
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	s.mu.Unlock()
	return l, nil
}

// open gives both sockets the same port. A port that is free for TCP may be taken for UDP, so several are tried if any will do.
func (l *Listener) open(addr netip.AddrPort) error {
	attempts := 1
	if addr.Port() == 0 {
		attempts = 16
	}
	var err error
	for range attempts {
		// A keep-alive would cost a timer, and connections end soon anyway.
		config := net.ListenConfig{KeepAlive: -1}
		if l.tcp, err = config.Listen(context.Background(), "tcp", addr.String()); err != nil {
			return err
		}
		bound := l.tcp.Addr().(*net.TCPAddr).AddrPort()
		if l.udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(bound)); err == nil {
			// Room for a burst; the kernel may grant less.
			_ = l.udp.SetReadBuffer(1 << 20)
			return nil
		}
		_ = l.tcp.Close()
	}
	return err
}

// Addr is what is listened on.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Close closes the sockets.
func (l *Listener) Close() {
	s := l.server
	s.mu.Lock()
	s.listeners = slices.DeleteFunc(s.listeners, func(other *Listener) bool { return other == l })
	s.mu.Unlock()
	_ = l.tcp.Close()
	_ = l.udp.Close()
}

// How long a TCP connection waits for its first question and for another one, as in CoreDNS. The number of questions has no bound, as
// there: caches on nodes keep their connections.
const (
	firstTimeout = 3 * time.Second
	idleTimeout  = 10 * time.Second
)

// stopTimeout is how long the end waits for clients that keep their connection.
const stopTimeout = time.Second

// Serve answers until the context ends, and has closed its sockets when it returns.
func (l *Listener) Serve(ctx context.Context) error {
	defer l.Close()
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.FromContext(ctx).WithName("dns")))
	defer cancel()
	var wg sync.WaitGroup
	failed := make(chan error, 1+runtime.GOMAXPROCS(0))
	started := make(chan struct{})
	srv := &dns.Server{
		Listener: &bounded{Listener: l.tcp, may: l.mayAsk, gauge: l.server.config.Metrics.Connections, peers: map[netip.Addr]int{}}, Net: "tcp", NotifyStartedFunc: func() { close(started) },
		ReadTimeout: firstTimeout, IdleTimeout: func() time.Duration { return idleTimeout }, MaxTCPQueries: -1,
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) { l.serveTCP(ctx, w, req) }),
	}
	wg.Go(func() {
		if err := srv.ActivateAndServe(); err != nil {
			failed <- fmt.Errorf("dns: serving TCP: %w", err)
		}
	})
	loop := newUDPLoop(l)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			if err := loop.run(ctx); err != nil && ctx.Err() == nil {
				failed <- fmt.Errorf("dns: serving UDP: %w", err)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	_ = l.udp.SetReadDeadline(time.Unix(1, 0))
	select { // the end of a server that has not started yet would be lost
	case <-started:
	case <-time.After(stopTimeout):
	}
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	// An error here is a server that failed before, or a client that keeps its connection open.
	_ = srv.ShutdownContext(stop)
	done()
	l.Close()
	wg.Wait()
	loop.wait()
	return err
}

// mayAsk tells whether an address is one of the cluster's or of this machine.
func (l *Listener) mayAsk(a netip.Addr) bool {
	if l.server.clients.allowed(a) || l.machine.has(a, l.server.config.Clock.Now()) {
		return true
	}
	l.server.config.Metrics.RefusedRequests.Inc()
	return false
}

func (l *Listener) serveTCP(ctx context.Context, w dns.ResponseWriter, req *dns.Msg) {
	q := request{msg: req, client: addrOf(w.RemoteAddr()), remote: w.RemoteAddr(), tcp: true, started: l.server.config.Clock.Now()}
	packed, err := l.server.respond(ctx, q, true, nil)
	if err == nil {
		_, err = w.Write(packed)
	}
	if err != nil {
		klog.FromContext(ctx).V(4).Info("Answering by TCP failed", "err", err)
	}
}

// bounded is a listener that takes connections of who may ask only, and so many at a time.
type bounded struct {
	net.Listener
	may   func(netip.Addr) bool
	gauge prometheus.Gauge

	mu    sync.Mutex
	all   int                // guarded by mu
	peers map[netip.Addr]int // guarded by mu
}

// Bounds of connections, of all clients and of one. What is more is closed at once: a client that holds connections must not
// keep others waiting.
const (
	maxConnections = 1024
	maxPerClient   = 128
)

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := addrOf(c.RemoteAddr())
		if b.may(peer) && b.take(peer) {
			return &counted{Conn: c, release: sync.OnceFunc(func() { b.release(peer) })}, nil
		}
		_ = c.Close()
	}
}

func (b *bounded) take(peer netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all >= maxConnections || b.peers[peer] >= maxPerClient {
		return false
	}
	b.all++
	b.peers[peer]++
	b.gauge.Inc()
	return true
}

func (b *bounded) release(peer netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	b.gauge.Dec()
	if b.peers[peer]--; b.peers[peer] == 0 {
		delete(b.peers, peer)
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	release func()
}

func (c *counted) Close() error {
	c.release()
	return c.Conn.Close()
}
