// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package clientcertificate authenticates by the certificate of a TLS connection, and remembers for a while what it found:
// a client sends many requests on a connection, and to verify signatures for each is the most expensive part of a small
// one. Touch it when a certificate is trusted for too long. The verification itself is k8s.io/apiserver's.
package clientcertificate

import (
	"crypto/sha256"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/utils/clock"
)

const (
	// trusted is how long a verified certificate needs no other look, as long as a verified token: a CA that is taken away
	// takes effect after that.
	trusted = 10 * time.Second
	// remembered is the number of certificates, those used last.
	remembered = 4096
)

// Authenticator is an authenticator of requests; safe for concurrent use.
type Authenticator struct {
	verifier authenticator.Request
	verified *cache.LRUExpireCache
	clock    clock.PassiveClock
}

// New returns an authenticator that trusts the CAs which options returns at the time. The common name is the user and
// organizations are groups.
func New(options x509.VerifyOptionFunc, c clock.PassiveClock) *Authenticator {
	return &Authenticator{
		verifier: x509.NewDynamic(options, x509.CommonNameUserConversion),
		verified: cache.NewLRUExpireCacheWithClock(remembered, c),
		clock:    c,
	}
}

// AuthenticateRequest implements authenticator.Request. Only success is remembered, and not past the certificate's end.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	key := chain(r)
	if known, ok := a.verified.Get(key); ok {
		return known.(*authenticator.Response), true, nil
	}
	response, ok, err := a.verifier.AuthenticateRequest(r)
	if ok && err == nil {
		left := r.TLS.PeerCertificates[0].NotAfter.Sub(a.clock.Now())
		for _, c := range r.TLS.PeerCertificates[1:] {
			left = min(left, c.NotAfter.Sub(a.clock.Now()))
		}
		a.verified.Add(key, response, min(trusted, left))
	}
	return response, ok, err
}

// chain identifies all that the client has shown: intermediates take part in the verification.
func chain(r *http.Request) [sha256.Size]byte {
	if all := r.TLS.PeerCertificates; len(all) == 1 {
		return sha256.Sum256(all[0].Raw)
	}
	h := sha256.New()
	for _, c := range r.TLS.PeerCertificates {
		h.Write(c.Raw) // DER tells its own length
	}
	return [sha256.Size]byte(h.Sum(nil))
}
