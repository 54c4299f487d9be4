// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"net/http"
	"sync"
)

// Transport sends requests with a client certificate that changes from time to time. A server looks at the certificate of a
// connection whenever a request comes on it, so new requests get a new connection then; those under way, such as watches, go on
// where they are. Safe for concurrent use.
type Transport struct {
	certificate func() (*tls.Certificate, error)
	make        func(*tls.Certificate) *http.Transport

	mu   sync.Mutex
	cert *tls.Certificate // guarded by mu, like all below; that of made
	made *http.Transport
}

// NewTransport returns a Transport that asks for the certificate before each request. Another pointer is another certificate,
// for which a transport is made. That should have an IdleConnTimeout, or old connections stay.
func NewTransport(certificate func() (*tls.Certificate, error), makeTransport func(*tls.Certificate) *http.Transport) *Transport {
	return &Transport{certificate: certificate, make: makeTransport}
}

// Current is the transport of the present certificate.
func (t *Transport) Current() (*http.Transport, error) {
	cert, err := t.certificate()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made == nil || t.cert != cert {
		if t.made != nil {
			t.made.CloseIdleConnections()
		}
		t.cert, t.made = cert, t.make(cert)
	}
	return t.made, nil
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	current, err := t.Current()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return current.RoundTrip(r)
}

// CloseIdleConnections does so for clients that end.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made != nil {
		t.made.CloseIdleConnections()
	}
}
