// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package certificaterequest

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

func request(change func(*x509.CertificateRequest)) *x509.CertificateRequest {
	r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}}
	if change != nil {
		change(r)
	}
	return r
}

var (
	dns   = func(r *x509.CertificateRequest) { r.DNSNames = []string{"a"} }
	ip    = func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{10, 0, 0, 1}} }
	mail  = func(r *x509.CertificateRequest) { dns(r); r.EmailAddresses = []string{"a@b"} }
	uri   = func(r *x509.CertificateRequest) { dns(r); r.URIs = []*url.URL{{}} }
	group = func(r *x509.CertificateRequest) {
		dns(r)
		r.Subject.Organization = append(r.Subject.Organization, "system:masters")
	}
	name = func(r *x509.CertificateRequest) { dns(r); r.Subject.CommonName = "a" }
)

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestValidateKubeletClient(t *testing.T) {
	only := func(change func(*x509.CertificateRequest)) func(*x509.CertificateRequest) {
		return func(r *x509.CertificateRequest) { change(r); r.DNSNames = nil }
	}
	ec := []certificatesv1.KeyUsage{"digital signature", "client auth"}
	for title, tt := range map[string]struct {
		change func(*x509.CertificateRequest)
		usages []certificatesv1.KeyUsage
		want   string
	}{
		"ECDSA":          {usages: ec},
		"RSA":            {usages: append([]certificatesv1.KeyUsage{"key encipherment"}, ec...)},
		"server":         {usages: append([]certificatesv1.KeyUsage{"server auth"}, ec...), want: "usages did not match [client auth digital signature key encipherment]"},
		"too few usages": {usages: ec[:1], want: "usages did not match [client auth digital signature key encipherment]"},
		"group":          {change: only(group), usages: ec, want: "subject organization is not system:nodes"},
		"name":           {change: only(name), usages: ec, want: "subject common name does not begin with system:node:"},
		"DNS":            {change: dns, usages: ec, want: "DNS subjectAltNames are not allowed"},
		"IP":             {change: ip, usages: ec, want: "IP subjectAltNames are not allowed"},
		"mail":           {change: only(mail), usages: ec, want: "Email subjectAltNames are not allowed"},
		"URI":            {change: only(uri), usages: ec, want: "URI subjectAltNames are not allowed"},
	} {
		t.Run(title, func(t *testing.T) {
			if got := message(ValidateKubeletClient(request(tt.change), tt.usages)); got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

func TestValidateKubeletServing(t *testing.T) {
	ec := []certificatesv1.KeyUsage{"digital signature", "server auth"}
	for title, tt := range map[string]struct {
		change func(*x509.CertificateRequest)
		usages []certificatesv1.KeyUsage
		want   string
	}{
		"DNS":      {change: dns, usages: ec},
		"IP":       {change: ip, usages: append([]certificatesv1.KeyUsage{"key encipherment"}, ec...)},
		"no names": {usages: ec, want: "DNS or IP subjectAltName is required"},
		"client":   {change: dns, usages: []certificatesv1.KeyUsage{"digital signature", "client auth"}, want: "usages did not match [digital signature key encipherment server auth]"},
		"group":    {change: group, usages: ec, want: "subject organization is not system:nodes"},
		"name":     {change: name, usages: ec, want: "subject common name does not begin with system:node:"},
		"mail":     {change: mail, usages: ec, want: "Email subjectAltNames are not allowed"},
		"URI":      {change: uri, usages: ec, want: "URI subjectAltNames are not allowed"},
	} {
		t.Run(title, func(t *testing.T) {
			if got := message(ValidateKubeletServing(request(tt.change), tt.usages)); got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

func TestApproved(t *testing.T) {
	type condition = certificatesv1.CertificateSigningRequestCondition
	for title, tt := range map[string]struct {
		conditions []condition
		want       bool
	}{
		"nothing":      {},
		"approved":     {[]condition{{Type: "Approved", Status: corev1.ConditionTrue}}, true},
		"long ago":     {[]condition{{Type: "Approved"}}, true},
		"denied, too":  {[]condition{{Type: "Approved"}, {Type: "Denied"}}, false},
		"another word": {[]condition{{Type: "Failed"}}, false},
	} {
		t.Run(title, func(t *testing.T) {
			r := &certificatesv1.CertificateSigningRequest{Status: certificatesv1.CertificateSigningRequestStatus{Conditions: tt.conditions}}
			if got := Approved(r); got != tt.want {
				t.Errorf("approved is %t", got)
			}
		})
	}
}

func TestParse(t *testing.T) {
	if _, err := Parse([]byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")); message(err) != "PEM block type must be CERTIFICATE REQUEST" {
		t.Errorf("error %v", err)
	}
}
