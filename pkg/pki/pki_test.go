// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

func TestIssue_VerifiesAgainstCA(t *testing.T) {
	t.Parallel()
	ca, err := NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	for _, tc := range []struct {
		name           string
		request        Request
		server, client bool
	}{
		{"client", Request{CommonName: "u", Organizations: []string{"g"}}, false, true},
		{"server", Request{CommonName: "s", Hosts: []string{"localhost", "127.0.0.1"}}, true, false},
		{"both", Request{CommonName: "b", Hosts: []string{"localhost"}, Client: true}, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := ca.Issue(tc.request)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tls.X509KeyPair(p.Cert, p.Key); err != nil {
				t.Errorf("certificate and key do not fit: %v", err)
			}
			cert, err := ParseCertificate(p.Cert)
			if err != nil {
				t.Fatal(err)
			}
			for usage, want := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageServerAuth: tc.server, x509.ExtKeyUsageClientAuth: tc.client} {
				_, err := cert.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{usage}})
				if (err == nil) != want {
					t.Errorf("usage %v: %v, want allowed %t", usage, err, want)
				}
			}
		})
	}
}

func TestLoadCA_HalvesOfTwo(t *testing.T) {
	t.Parallel()
	a, err := NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCA(Pair{Cert: a.Cert, Key: b.Key}); err == nil {
		t.Error("the key of another CA is accepted")
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	ca, err := NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	r := Request{CommonName: "s", Organizations: []string{"g", "h"}, Hosts: []string{"a", "10.0.0.1"}}
	p, err := ca.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	twin, err := ca.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*Request)) Request {
		c := r
		change(&c)
		return c
	}
	now := time.Now()
	for _, tc := range []struct {
		name    string
		ca      *CA
		pair    Pair
		request Request
		now     time.Time
		want    bool
	}{
		{"fresh", ca, p, r, now, true},
		{"in another order", ca, p, with(func(r *Request) { r.Organizations, r.Hosts = []string{"h", "g"}, []string{"10.0.0.1", "a"} }), now, true},
		{"another CA", other, p, r, now, false},
		{"another name", ca, p, with(func(r *Request) { r.CommonName = "t" }), now, false},
		{"another group", ca, p, with(func(r *Request) { r.Organizations = []string{"g", "i"} }), now, false},
		{"a group more", ca, p, with(func(r *Request) { r.Organizations = []string{"g"} }), now, false},
		{"no group", ca, p, with(func(r *Request) { r.Organizations = nil }), now, false},
		{"a new host", ca, p, with(func(r *Request) { r.Hosts = []string{"a", "10.0.0.2"} }), now, false},
		{"a host less", ca, p, with(func(r *Request) { r.Hosts = []string{"a"} }), now, false},
		{"another use", ca, p, with(func(r *Request) { r.Client = true }), now, false},
		{"another's key", ca, Pair{Cert: p.Cert, Key: twin.Key}, r, now, false},
		{"no key", ca, Pair{Cert: p.Cert}, r, now, false},
		{"two thirds through", ca, p, r, now.Add(LeafLifetime * 2 / 3), true},
		{"made by a clock that was a day ahead", ca, p, r, now.Add(-24 * time.Hour), false},
		{"by one that was a minute ahead", ca, p, r, now.Add(-time.Minute), true},
		{"nine tenths through", ca, p, r, now.Add(LeafLifetime * 9 / 10), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := tc.ca.Fits(tc.pair, tc.request, tc.now); got != tc.want {
				t.Errorf("Fits = %t, want %t", got, tc.want)
			}
		})
	}
}

// A cluster that was just made has certificates that are valid when its clock is set back by hours.
func TestIssue_ClockSetBack(t *testing.T) {
	ca, err := NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-23 * time.Hour)
	p, err := ca.Issue(Request{CommonName: "s", Hosts: []string{"s"}, NotBefore: then})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ParseCertificate(p.Cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "s", CurrentTime: then.Add(time.Minute)}); err != nil {
		t.Error(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "s", CurrentTime: then.Add(-time.Minute)}); err == nil {
		t.Error("it is valid before it is to be")
	}
}

func TestRenewAt(t *testing.T) {
	t.Parallel()
	ca, err := NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[time.Duration]bool{}
	for range 20 {
		before := time.Now().Truncate(time.Second)
		p, err := ca.Issue(Request{CommonName: "u", Lifetime: 100 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		cert, err := ParseCertificate(p.Cert)
		if err != nil {
			t.Fatal(err)
		}
		if issued := Issued(cert); issued.Before(before) || issued.After(time.Now()) {
			t.Errorf("issued at %v, which is not now", issued)
		}
		at := RenewAt(cert)
		if again := RenewAt(cert); !again.Equal(at) {
			t.Errorf("first %v, then %v", at, again)
		}
		part := at.Sub(Issued(cert))
		if part < 70*time.Second || part > 91*time.Second { // a certificate knows no parts of seconds
			t.Errorf("renewed after %v of 100 s", part)
		}
		seen[part] = true
	}
	if len(seen) < 2 {
		t.Error("all are renewed at once")
	}
}

func TestLeaf(t *testing.T) {
	t.Parallel()
	ca, err := NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	ca.Lifetime = 2 * time.Second
	l := ca.Leaf(Request{CommonName: "u"})
	first, err := l.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.Certificate(); err != nil || again != first {
		t.Errorf("asked again: %p, %v; want %p", again, err, first)
	}
	at, err := l.RenewAt()
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(at))
	next, err := l.Certificate()
	if err != nil || next == first || !next.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Errorf("after its time: the same = %t, %v", next == first, err)
	}
}

// TestLeaf_ClockSetBack: a certificate that nobody accepts yet, because the clock was ahead when it was made, is replaced.
func TestLeaf_ClockSetBack(t *testing.T) {
	t.Parallel()
	ca, err := NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	l := ca.Leaf(Request{CommonName: "u"})
	first, err := l.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	first.Leaf.NotBefore = time.Now().Add(24 * time.Hour)
	next, err := l.Certificate()
	if err != nil || next == first {
		t.Errorf("the same = %t, %v", next == first, err)
	}
}

// TestTransport: a server that looks at the certificate of each request sees a valid one always, while a request that began
// before goes on.
func TestTransport(t *testing.T) {
	t.Parallel()
	ca, err := NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	end := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].SerialNumber)
		if r.URL.Path == "/watch" {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-end
			fmt.Fprint(w, " end")
		}
	}))
	serving, err := ca.Leaf(Request{CommonName: "s", Hosts: []string{"127.0.0.1"}}).Certificate()
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*serving}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	var current atomic.Pointer[tls.Certificate]
	renew := func() string {
		t.Helper()
		cert, err := ca.Leaf(Request{CommonName: "u"}).Certificate()
		if err != nil {
			t.Fatal(err)
		}
		current.Store(cert)
		return cert.Leaf.SerialNumber.String()
	}
	transport := NewTransport(func() (*tls.Certificate, error) { return current.Load(), nil }, func(cert *tls.Certificate) *http.Transport {
		return &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{*cert}}}
	})
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	get := func(path string) *http.Response {
		t.Helper()
		response, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	read := func(r *http.Response) string {
		t.Helper()
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	first := renew()
	watch := get("/watch") //nolint:bodyclose // read closes it
	for range 3 {
		serial := renew()
		for range 2 {
			if got := read(get("/")); got != serial { //nolint:bodyclose // read closes it
				t.Errorf("the server saw certificate %s, want %s", got, serial)
			}
		}
	}
	close(end)
	if got := read(watch); got != first+" end" {
		t.Errorf("the request from before got %q", got)
	}
}
