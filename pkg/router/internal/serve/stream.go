// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// serveStreams passes on the connections of a port.
func (s *socket) serveStreams(listener net.Listener) {
	ctx, cancel := context.WithCancel(s.parent.context)
	config := s.config()
	var streams sync.WaitGroup
	s.end = func(limited context.Context) {
		stop := context.AfterFunc(limited, cancel)
		defer stop()
		streams.Wait()
		cancel()
	}
	go func() {
		defer close(s.ended)
		for {
			client, err := listener.Accept()
			switch {
			case err == nil:
				streams.Go(func() { s.stream(ctx, client, config) })
			case errors.Is(err, net.ErrClosed):
				return
			default:
				s.acceptFailed(ctx, err)
			}
		}
	}()
}

// acceptFailed reports what may fail again at once, and waits a little: the process may have no file descriptor to spare.
func (s *socket) acceptFailed(ctx context.Context, err error) {
	klog.Background().Error(err, "Accepting a connection failed", "address", s.address)
	select {
	case <-time.After(acceptPause):
	case <-ctx.Done():
	}
}

// stream passes on one connection, until ctx ends.
func (s *socket) stream(ctx context.Context, client net.Conn, config *tls.Config) {
	raw := client // whatever is made of it below
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	l := s.parent.table.Load().Ports[s.address]
	if l == nil {
		return
	}
	name := ""
	if s.protocol == table.TLS {
		_ = client.SetDeadline(time.Now().Add(headerTime))
		var err error
		if name, client, err = serverName(client); err != nil {
			return
		}
	}
	route := l.Stream(name)
	if route == nil {
		return
	}
	chosen := route.Choose()
	if chosen == nil || chosen.Backend == nil {
		return
	}
	ends := s.protocol == table.TLS && !l.Passthrough(name)
	if s.protocol == table.TLS {
		if ends {
			ended := tls.Server(client, config)
			if ended.HandshakeContext(ctx) != nil {
				return
			}
			client = ended
		}
		_ = client.SetDeadline(time.Time{})
	}
	backend, _ := s.parent.proxy.dial(ctx, chosen.Backend, "tcp")
	if backend == nil {
		return
	}
	defer backend.Close()
	defer context.AfterFunc(ctx, func() { _ = backend.Close() })()
	to := backend
	if how := chosen.Backend.TLS; how != nil && ends {
		secured := tls.Client(backend, backendConfig(how, l.Certificate))
		if shake(ctx, secured) != nil {
			return
		}
		to = secured
	}
	join(client, to)
}

// shake begins TLS with a backend, which has as long for it as to accept a connection.
func shake(ctx context.Context, backend *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return backend.HandshakeContext(ctx)
}

// dial connects to an endpoint of a backend, to another one if the first is gone, and says to which; nil if there is none.
func (p *proxy) dial(ctx context.Context, b *table.Backend, network string) (c net.Conn, endpoint string) {
	var tried []string
	for range maxFailures {
		// A connection that finds an endpoint gone wants to know those that have come.
		if now := p.table.Load().Backends[b.Key]; now != nil {
			b = now
		}
		endpoint := untried(b, tried)
		if endpoint == "" {
			return nil, ""
		}
		tried = append(tried, endpoint)
		if c, err := p.dialer.DialContext(ctx, network, endpoint); err == nil {
			return c, endpoint
		}
	}
	return nil, ""
}

// halfCloser is a connection of which one direction can be ended.
type halfCloser interface{ CloseWrite() error }

// join copies in both directions, and returns when both have ended.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			to, from := pair[0], pair[1]
			if _, err := io.Copy(to, from); err != nil {
				_, _ = to.Close(), from.Close() // it broke: the other direction is of no use
				return
			}
			if h, ok := to.(halfCloser); !ok || h.CloseWrite() != nil {
				_ = to.Close()
			}
		})
	}
	both.Wait()
}

// read is a connection of which something was read already.
type read struct {
	net.Conn
	io.Reader
}

// Read gives what was read first.
func (r *read) Read(p []byte) (int, error) { return r.Reader.Read(p) }

// CloseWrite ends one direction.
func (r *read) CloseWrite() error {
	if h, ok := r.Conn.(halfCloser); ok {
		return h.CloseWrite()
	}
	return r.Close()
}

// listening is a connection that is read only: what would be answered is dropped.
type listening struct {
	net.Conn
	io.Reader
}

func (l listening) Read(p []byte) (int, error)  { return l.Reader.Read(p) }
func (l listening) Write(p []byte) (int, error) { return len(p), nil }
func (l listening) Close() error                { return nil }

var errHelloRead = errors.New("the server name is known")

// serverName reads the hello of a TLS client, and returns the name that it asks for and a connection that still has all of it.
func serverName(client net.Conn) (string, net.Conn, error) {
	var seen bytes.Buffer
	name, known := "", false
	err := tls.Server(listening{client, io.TeeReader(io.LimitReader(client, maxHeader), &seen)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, known = table.Host(hello.ServerName), true
			return nil, errHelloRead
		},
	}).Handshake()
	if !known {
		return "", nil, err
	}
	return name, &read{client, io.MultiReader(&seen, client)}, nil
}
