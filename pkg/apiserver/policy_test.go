// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"minik8s.io/minik8s/pkg/pki"
)

func TestKubeletTransport(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA("kubelets")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Request{CommonName: "n1", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	serving, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	kubelet.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequestClientCert}
	kubelet.StartTLS()
	t.Cleanup(kubelet.Close)
	other, err := pki.NewCA("others")
	if err != nil {
		t.Fatal(err)
	}
	nobody := func() (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	for _, tc := range []struct {
		name string
		ca   []byte
		want string // the error
	}{
		{"its CA", ca.Cert, ""},
		{"another CA", other.Cert, "certificate signed by unknown authority"},
		{"no CA, at an address of the machine's own", nil, "address not allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			transport, err := kubeletTransport(Config{KubeletClient: nobody, KubeletCA: tc.ca})
			if err != nil {
				t.Fatal(err)
			}
			defer transport.CloseIdleConnections()
			response, err := (&http.Client{Transport: transport}).Get(kubelet.URL)
			if err == nil {
				_ = response.Body.Close()
			}
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
			current, err := transport.Current()
			if err != nil {
				t.Fatal(err)
			}
			if got := current.TLSClientConfig.InsecureSkipVerify; got != (tc.ca == nil) {
				t.Errorf("any certificate will do: %t", got)
			}
		})
	}
	if _, err := kubeletTransport(Config{KubeletClient: nobody, KubeletCA: []byte("none")}); err == nil {
		t.Error("a file without a certificate is a CA")
	}
}
