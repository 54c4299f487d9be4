// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// transports are the pools of connections to backends: one for each way in which they are spoken to, for a connection that was made
// in one way is no good for another.
type transports struct {
	dialer     *net.Dialer
	http1, h2c *http.Transport

	mu     sync.Mutex
	secure map[security]*http.Transport // guarded by mu
}

// security is how backends are spoken to by TLS.
type security struct {
	key         string
	certificate *tls.Certificate
	http2       bool
}

func newTransports() *transports {
	t := &transports{dialer: &net.Dialer{Timeout: dialTime, KeepAlive: 30 * time.Second}, secure: map[security]*http.Transport{}}
	t.http1, t.h2c = t.new(false), t.new(true)
	return t
}

func (t *transports) new(http2 bool) *http.Transport {
	p := &http.Protocols{}
	p.SetHTTP1(!http2)
	p.SetUnencryptedHTTP2(http2)
	p.SetHTTP2(http2)
	return &http.Transport{
		DialContext: t.dialer.DialContext, Protocols: p, DisableCompression: true, TLSHandshakeTimeout: dialTime,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute, ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: maxHeader,
	}
}

// transport is that for a backend, which is shown a certificate if it asks for one.
func (t *transports) transport(b *table.Backend, certificate *tls.Certificate) *http.Transport {
	switch {
	case b.TLS == nil && b.Protocol == table.H2C:
		return t.h2c
	case b.TLS == nil:
		return t.http1
	}
	key := security{b.TLS.Key, certificate, b.Protocol == table.H2C}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.secure[key] == nil {
		t.secure[key] = t.new(key.http2)
		t.secure[key].TLSClientConfig = backendConfig(b.TLS, certificate)
	}
	return t.secure[key]
}

// keep closes the pools of ways that a table does not know any more.
func (t *transports) keep(now *table.Table) {
	keys, certificates := map[string]bool{}, map[*tls.Certificate]bool{nil: true}
	for _, b := range now.Backends {
		if b.TLS != nil {
			keys[b.TLS.Key] = true
		}
	}
	for _, l := range now.Ports {
		certificates[l.Certificate] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, transport := range t.secure {
		if !keys[key.key] || !certificates[key.certificate] {
			transport.CloseIdleConnections() // those in use end with their requests: nobody takes them from this pool
			delete(t.secure, key)
		}
	}
}

func (t *transports) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.http1.CloseIdleConnections()
	t.h2c.CloseIdleConnections()
	for _, transport := range t.secure {
		transport.CloseIdleConnections()
	}
}

// backendConfig has a backend prove that it is whom the settings expect.
func backendConfig(want *table.BackendTLS, certificate *tls.Certificate) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: want.ServerName, RootCAs: want.Roots}
	if certificate != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	if len(want.Names) > 0 || len(want.URIs) > 0 {
		// The name that is asked for is not the one that counts, so the chain and the names are verified here.
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(state tls.ConnectionState) error { return verify(want, state.PeerCertificates) }
	}
	return c
}

var errWrongName = errors.New("the certificate of the backend is for none of the names that it has to be for")

// verify checks the certificates of a backend: an authority has to vouch for the first, which has to be for one of the names.
func verify(want *table.BackendTLS, certificates []*x509.Certificate) error {
	if len(certificates) == 0 {
		return errWrongName
	}
	between := x509.NewCertPool()
	for _, c := range certificates[1:] {
		between.AddCert(c)
	}
	if _, err := certificates[0].Verify(x509.VerifyOptions{Roots: want.Roots, Intermediates: between}); err != nil {
		return err
	}
	for _, uri := range certificates[0].URIs {
		if slices.Contains(want.URIs, uri.String()) {
			return nil
		}
	}
	for _, name := range want.Names {
		suffix, wildcard := strings.CutPrefix(name, "*.")
		if !wildcard && certificates[0].VerifyHostname(name) == nil {
			return nil
		}
		// A wildcard is for whatever one label before the rest the certificate has.
		if wildcard && slices.ContainsFunc(certificates[0].DNSNames, func(has string) bool {
			_, rest, ok := strings.Cut(has, ".")
			return ok && strings.EqualFold(rest, suffix)
		}) {
			return nil
		}
	}
	return errWrongName
}
