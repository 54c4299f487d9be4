// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"fmt"
	"sync"
	"time"
)

// Leaf is a certificate that is replaced in time, when somebody asks for it: a machine that slept through its end has a new one
// at the next request. Safe for concurrent use.
type Leaf struct {
	ca      *CA
	request Request

	mu      sync.Mutex
	pair    Pair             // guarded by mu, like all below
	cert    *tls.Certificate // that of pair; nil before the first
	renewAt time.Time
}

// Leaf returns a certificate that is made when it is first asked for.
func (c *CA) Leaf(r Request) *Leaf { return &Leaf{ca: c, request: r} }

// Certificate is the present one. It is the same pointer until it is replaced.
func (l *Leaf) Certificate() (*tls.Certificate, error) {
	cert, _, _, err := l.current()
	return cert, err
}

// Pair is the present one as PEM.
func (l *Leaf) Pair() (Pair, error) {
	_, pair, _, err := l.current()
	return pair, err
}

// RenewAt is when the present one will be replaced, if somebody asks then.
func (l *Leaf) RenewAt() (time.Time, error) {
	_, _, at, err := l.current()
	return at, err
}

func (l *Leaf) current() (*tls.Certificate, Pair, time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.cert != nil && now.Before(l.renewAt) && !now.Before(l.cert.Leaf.NotBefore) {
		return l.cert, l.pair, l.renewAt, nil
	}
	pair, err := l.ca.Issue(l.request)
	if err != nil {
		return nil, Pair{}, time.Time{}, err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, Pair{}, time.Time{}, fmt.Errorf("reading the certificate of %q: %w", l.request.CommonName, err)
	}
	l.cert, l.pair, l.renewAt = &cert, pair, RenewAt(cert.Leaf)
	return l.cert, l.pair, l.renewAt, nil
}
