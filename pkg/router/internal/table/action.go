// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"crypto/x509"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// Action is what is done with a request. The zero Action answers 500, as something without a backend does.
type Action struct {
	Filters
	// Backends get shares of the requests by their weights.
	Backends []WeightedBackend
	// RequestTimeout is how long all of a request may take, BackendTimeout what one attempt at a backend may take to answer. 0:
	// there is no limit.
	RequestTimeout, BackendTimeout time.Duration
	// HeaderTimeout is how long a backend may take to begin its answer, from the last piece of the request on. 0: there is no limit.
	HeaderTimeout time.Duration
	Retry         Retry
}

// Retry says after which answers a request is sent again.
type Retry struct {
	// Codes are the statuses of such answers.
	Codes []int
	// Attempts is how often at most, after the first time.
	Attempts int
	// Backoff is how long is waited before.
	Backoff time.Duration
}

// WeightedBackend is a backend of a route.
type WeightedBackend struct {
	Weight  uint32
	Backend *Backend // nil: what the route names cannot be used, and its share is answered by 500
	Filters Filters
}

// AppProtocol is what a backend speaks.
type AppProtocol int

// Protocols of backends.
const (
	HTTP1 AppProtocol = iota
	// H2C is HTTP/2 without TLS and without an upgrade.
	H2C
)

// Backend is one port of a Service, and who serves it.
type Backend struct {
	// Key tells backends apart over the tables, which each have a Backend of their own for it.
	Key      string
	Protocol AppProtocol
	// Endpoints are host:port of those that are ready.
	Endpoints []string
	// Absent is what clients are told if there are no endpoints because what the route names is not there; "": nothing in particular.
	Absent string
	// TLS is how it is spoken to by TLS; nil: it is not.
	TLS *BackendTLS

	next atomic.Uint32
}

// BackendTLS says whom to expect at the other end of a TLS connection to a backend.
type BackendTLS struct {
	// Key tells such settings apart over the tables.
	Key string
	// ServerName is what a backend is asked for, and, unless there are Names or URIs, what its certificate has to be for.
	ServerName string
	// Roots are the authorities that are believed; nil: those of the machine.
	Roots *x509.CertPool
	// Names, with "*." for one label before the rest, and URIs are those of which the certificate has to have one.
	Names, URIs []string
}

// NewBackend returns a backend that begins with any of its endpoints: tables change often, and the first would get more.
func NewBackend(key string, protocol AppProtocol, endpoints []string) *Backend {
	b := &Backend{Key: key, Protocol: protocol, Endpoints: endpoints}
	b.next.Store(rand.Uint32())
	return b
}

// Next is the endpoint whose turn it is, "" if there is none.
func (b *Backend) Next() string {
	if len(b.Endpoints) == 0 {
		return ""
	}
	return b.Endpoints[b.next.Add(1)%uint32(len(b.Endpoints))]
}

// Choose picks a backend by the weights, nil if none has any.
func (a *Action) Choose() *WeightedBackend {
	if len(a.Backends) == 1 && a.Backends[0].Weight > 0 {
		return &a.Backends[0]
	}
	var sum uint32
	for i := range a.Backends {
		sum += a.Backends[i].Weight
	}
	if sum == 0 {
		return nil
	}
	at := rand.Uint32N(sum)
	for i := range a.Backends {
		if w := a.Backends[i].Weight; at >= w {
			at -= w
			continue
		}
		return &a.Backends[i]
	}
	return nil
}

func (a *Action) backends() iter.Seq[*Backend] {
	return func(yield func(*Backend) bool) {
		mirrors := a.Mirrors
		for i := range a.Backends {
			if b := a.Backends[i].Backend; b != nil && !yield(b) {
				return
			}
			mirrors = append(slices.Clip(mirrors), a.Backends[i].Filters.Mirrors...)
		}
		for _, m := range mirrors {
			if m.Backend != nil && !yield(m.Backend) {
				return
			}
		}
	}
}
