// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package clientcertificate

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/pki"
)

func TestAuthenticateRequest(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.NewCA("other")
	if err != nil {
		t.Fatal(err)
	}
	shown := func(by *pki.CA) *http.Request {
		pair, err := by.Issue(pki.Request{CommonName: "ann", Organizations: []string{"team"}})
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(pair.Cert)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}}
	}
	known, unknown := shown(ca), shown(other)

	trusts, looks := true, 0
	now := clocktesting.NewFakePassiveClock(time.Now())
	a := New(func() (x509.VerifyOptions, bool) {
		looks++
		roots := x509.NewCertPool()
		if trusts {
			roots.AppendCertsFromPEM(ca.Cert)
		}
		return x509.VerifyOptions{Roots: roots, CurrentTime: now.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
	}, now)
	expect := func(what string, r *http.Request, ok bool, looked int) {
		t.Helper()
		response, got, _ := a.AuthenticateRequest(r)
		if got != ok || looks != looked {
			t.Errorf("%s: authenticated = %v after %d verifications, want %v after %d", what, got, looks, ok, looked)
		}
		if got && (response.User.GetName() != "ann" || response.User.GetGroups()[0] != "team") {
			t.Errorf("%s: user is %v", what, response.User)
		}
	}
	expect("no certificate", &http.Request{}, false, 0)
	expect("first request", known, true, 1)
	expect("second request", known, true, 1)
	expect("of another CA", unknown, false, 2)
	expect("of another CA, again", unknown, false, 3)
	trusts = false
	expect("while it is remembered", known, true, 3)
	now.SetTime(now.Now().Add(trusted + 1))
	expect("after the CA has gone", known, false, 4)
	trusts = true
	expect("after the CA has come back", known, true, 5)
	now.SetTime(known.TLS.PeerCertificates[0].NotAfter.Add(-time.Second))
	expect("shortly before it ends", known, true, 6)
	now.SetTime(known.TLS.PeerCertificates[0].NotAfter.Add(time.Second))
	expect("after it has ended", known, false, 7)
}
