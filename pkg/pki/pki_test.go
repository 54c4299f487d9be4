// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
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
	r := Request{CommonName: "s", Hosts: []string{"a", "10.0.0.1"}}
	p, err := ca.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, tc := range []struct {
		name    string
		ca      *CA
		request Request
		now     time.Time
		want    bool
	}{
		{"fresh", ca, r, now, true},
		{"another CA", other, r, now, false},
		{"another name", ca, Request{CommonName: "t"}, now, false},
		{"a new host", ca, Request{CommonName: "s", Hosts: []string{"a", "10.0.0.2"}}, now, false},
		{"half through", ca, r, now.Add(LeafLifetime/2 + time.Hour), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.ca.Fits(p, tc.request, tc.now); got != tc.want {
				t.Errorf("Fits = %t, want %t", got, tc.want)
			}
		})
	}
}
