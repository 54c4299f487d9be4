// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/network/namespace"
	"minik8s.io/minik8s/pkg/zpages"
)

const (
	defaultAddr        = ":10250"
	defaultIdleTimeout = 4 * time.Hour
	// shutdownTimeout is what plain requests get to finish when the server stops; streams are cut.
	shutdownTimeout = 2 * time.Second
)

// Server is the kubelet's HTTPS API, and what of it is served without TLS where a setting asks for that.
type Server struct {
	config Config
	auth   *auth
	slis   *zpages.Indicators

	listening chan struct{}
	port      int32
}

// New checks c and returns a Server that does not listen yet.
func New(c Config) (*Server, error) {
	switch {
	case c.Host == nil:
		return nil, errors.New("no host")
	case c.Client == nil:
		return nil, errors.New("no client")
	case c.Certificate == nil:
		return nil, errors.New("no serving certificate")
	}
	if c.Addr == "" {
		c.Addr = defaultAddr
	}
	if c.StreamIdleTimeout == 0 {
		c.StreamIdleTimeout = defaultIdleTimeout
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Metrics == nil {
		r := prometheus.NewRegistry()
		r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		c.Metrics = r
	}
	if c.ProbeMetrics == nil {
		c.ProbeMetrics = prometheus.NewRegistry()
	}
	if c.Cadvisor == nil {
		c.Cadvisor = prometheus.NewRegistry()
	}
	return &Server{config: c, auth: newAuth(c), slis: zpages.NewIndicators(), listening: make(chan struct{})}, nil
}

// Port is the port that Start listens on; it waits until that is known or ctx ends.
func (s *Server) Port(ctx context.Context) (int32, error) {
	select {
	case <-s.listening:
		return s.port, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for the kubelet's server to listen: %w", ctx.Err())
	}
}

// Start listens and serves until ctx ends; then all connections are closed and all requests have returned. It may be
// called once.
func (s *Server) Start(ctx context.Context) error {
	sockets := s.sockets()
	defer func() {
		for _, k := range sockets {
			if k.listener != nil {
				_ = k.listener.Close() // again, where it was served
			}
		}
	}()
	for _, k := range sockets {
		var err error
		if k.listener, err = namespace.Listen(ctx, s.config.NetNS, k.addr); err != nil {
			return fmt.Errorf("listening for %s: %w", k.what, err)
		}
		klog.FromContext(ctx).Info("Serving "+k.what, "address", k.listener.Addr())
	}
	if a, ok := sockets[0].listener.Addr().(*net.TCPAddr); ok {
		s.port = int32(a.Port)
	}
	close(s.listening)
	g, ctx := errgroup.WithContext(ctx)
	for _, k := range sockets {
		g.Go(func() error {
			if err := k.serve(ctx); err != nil {
				return fmt.Errorf("serving %s: %w", k.what, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// sockets are what Start listens on, the API first.
func (s *Server) sockets() []*socket {
	instrument := s.config.Instrument
	if instrument == nil {
		instrument = func(h http.Handler) http.Handler { return h }
	}
	all := []*socket{{what: "the kubelet's API", addr: s.config.Addr, handler: instrument(s.auth.protect(s.routes())), tls: &tls.Config{
		MinVersion: cmp.Or(s.config.MinVersion, tls.VersionTLS12), CipherSuites: s.config.CipherSuites, CurvePreferences: s.config.Curves,
		// Certificates are verified with the request, so that one with a token need not have any.
		ClientAuth:     tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.config.Certificate() },
	}}}
	if s.config.Healthz != "" {
		all = append(all, &socket{what: "the kubelet's health", addr: s.config.Healthz, handler: s.health()})
	}
	if s.config.ReadOnly != "" {
		all = append(all, &socket{what: "the kubelet's read-only API", addr: s.config.ReadOnly, handler: instrument(s.readOnly())})
	}
	return all
}

// socket is an address that is listened on, and what is served there.
type socket struct {
	what, addr string
	handler    http.Handler
	tls        *tls.Config // nil: without
	listener   net.Listener
}

// serve returns when ctx has ended, and with it all connections and requests.
func (k *socket) serve(ctx context.Context) error {
	conns := &tracker{Listener: k.listener, open: map[net.Conn]bool{}}
	var requests sync.WaitGroup
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			defer requests.Done()
			k.handler.ServeHTTP(w, r)
		}),
		TLSConfig:         k.tls,
		ReadHeaderTimeout: 32 * time.Second,
		IdleTimeout:       90 * time.Second,
		// Requests end with ctx, also those that follow a log or run a command.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		select {
		case <-ctx.Done():
		case <-stopped:
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
		conns.closeAll()
	}()
	var err error
	if k.tls == nil {
		err = server.Serve(conns)
	} else {
		err = server.ServeTLS(conns, "", "")
	}
	close(stopped)
	<-finished
	requests.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *Server) configz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"kubeletconfig": s.config.Host.Configz()})
}

func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	only := r.FormValue("only_cpu_and_memory") == "true"
	summary, err := s.config.Host.Stats(r.Context(), only)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, summary)
}

func writeJSON(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // the client is gone if this fails
}

// tracker knows all open connections, also those that were taken over by streams and which http.Server forgets.
type tracker struct {
	net.Listener
	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

func (t *tracker) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tc := &trackedConn{Conn: c, tracker: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	t.open[tc] = true
	return tc, nil
}

func (t *tracker) closeAll() {
	t.mu.Lock()
	t.closed = true
	open := t.open
	t.open = map[net.Conn]bool{}
	t.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
}

type trackedConn struct {
	net.Conn
	tracker *tracker
}

func (c *trackedConn) Close() error {
	c.tracker.mu.Lock()
	delete(c.tracker.open, c)
	c.tracker.mu.Unlock()
	return c.Conn.Close()
}
