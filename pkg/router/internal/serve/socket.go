// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// open opens a port and serves it.
func (s *Server) open(address netip.AddrPort, protocol table.Protocol) (*socket, error) {
	sock := &socket{parent: s, address: address, protocol: protocol, port: int(address.Port()), ended: make(chan struct{})}
	if protocol == table.UDP {
		packets, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(address))
		if err != nil {
			return nil, fmt.Errorf("listening on %s: %w", address, err)
		}
		sock.listener, sock.open = packets, packets.LocalAddr().(*net.UDPAddr).AddrPort()
		sock.serveDatagrams(packets)
		return sock, nil
	}
	listener, err := net.Listen("tcp", address.String())
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	sock.listener, sock.open = listener, listener.Addr().(*net.TCPAddr).AddrPort()
	if protocol == table.TLS || protocol == table.TCP {
		sock.serveStreams(listener)
	} else {
		sock.serveHTTP(listener)
	}
	return sock, nil
}

func (s *socket) serveHTTP(listener net.Listener) {
	ctx, cancel := context.WithCancel(s.parent.context)
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, clientKey{}, c) },
		ErrorLog:    quiet, Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	serve := server.Serve
	if s.protocol == table.HTTPS {
		server.Protocols.SetHTTP2(true)
		server.TLSConfig = s.config()
		server.TLSConfig.NextProtos = []string{"h2", "http/1.1"} // those that ask for a certificate of the client have them from here
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	} else {
		server.Protocols.SetUnencryptedHTTP2(true)
	}
	s.end = func(limited context.Context) {
		stop := context.AfterFunc(limited, cancel) // which ends also what was upgraded
		defer stop()
		if server.Shutdown(limited) != nil {
			_ = server.Close()
		}
		s.requests.Lock() // and for good: a request that comes late is not begun
		cancel()
	}
	go func() {
		defer close(s.ended)
		_ = serve(listener) // it ends when the listener is closed
	}()
}

// clientKey is where the context of a request has the connection of its client.
type clientKey struct{}

// config is that of TLS that ends here. Which certificates clients have to have is looked up for each of them.
func (s *socket) config() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate}
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		l := s.parent.table.Load().Ports[s.address]
		if l == nil || l.Clients == nil {
			return nil, nil //nolint:nilnil // that is how one says that the configuration is the right one
		}
		// A configuration of its own takes up no session that was begun under another one.
		own := &tls.Config{MinVersion: c.MinVersion, GetCertificate: c.GetCertificate, NextProtos: c.NextProtos}
		own.ClientAuth, own.ClientCAs = tls.RequireAndVerifyClientCert, l.Clients.Roots
		if l.Clients.Anybody {
			own.ClientAuth, own.ClientCAs = tls.RequestClientCert, nil
		}
		return own, nil
	}
	return c
}

// quiet tells of clients and backends that break off, which are no news, only who wants to know.
var quiet = log.New(logWriter{}, "", 0)

type logWriter struct{}

func (logWriter) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic")) {
		klog.Background().Error(nil, "Serving a request failed", "problem", string(line))
	} else {
		klog.Background().V(4).Info("A connection broke", "problem", string(line))
	}
	return len(line), nil
}

var errNoCertificate = errors.New("there is no certificate for this name")

// certificate chooses by the name that the client asks for, among those of the host by what the client understands.
func (s *socket) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	l := s.parent.table.Load().Ports[s.address]
	if l == nil {
		return nil, errNoCertificate
	}
	found := l.CertificatesFor(table.Host(hello.ServerName))
	for _, c := range found {
		if hello.SupportsCertificate(c) == nil {
			return c, nil
		}
	}
	if len(found) > 0 {
		return found[0], nil
	}
	if l.AnyName {
		return unknownName()
	}
	return nil, errNoCertificate
}

// unknownName is made when it is first needed.
var unknownName = sync.OnceValues(selfSigned)
