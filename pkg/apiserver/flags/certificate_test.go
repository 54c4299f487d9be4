// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"minik8s.io/minik8s/pkg/apiserver"
	"minik8s.io/minik8s/pkg/pki"
)

func TestFollowed(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issue := func() pki.Pair {
		t.Helper()
		pair, err := ca.Issue(pki.Request{CommonName: "client"})
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	if _, err := followed(certFile, keyFile); err == nil {
		t.Fatal("there are no files, and no error")
	}
	old := issue()
	write(certFile, old.Cert)
	write(keyFile, old.Key)
	now, err := followed(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	get := func() *tls.Certificate {
		t.Helper()
		cert, err := now()
		if err != nil || cert == nil {
			t.Fatalf("certificate %v, %v", cert, err)
		}
		return cert
	}
	first := get()
	if get() != first {
		t.Error("it is another one although the files have not changed")
	}
	fresh := issue()
	write(certFile, fresh.Cert)
	if get() != first {
		t.Error("it is another one before its key is there")
	}
	write(keyFile, fresh.Key)
	if second := get(); second == first || get() != second {
		t.Error("it is not the new one")
	}
}

// TestReadFiles_Kubelet: kubelets are reached with what upstream's server is content with: no CA, and no certificate.
func TestReadFiles_Kubelet(t *testing.T) {
	t.Parallel()
	c := &apiserver.Config{}
	f := New()
	if err := f.readFiles(c); err != nil {
		t.Fatal(err)
	}
	if c.KubeletClient == nil || c.KubeletCA != nil {
		t.Fatalf("kubelets are not reached: %+v", c)
	}
	cert, err := c.KubeletClient()
	if err != nil || len(cert.Certificate) > 0 {
		t.Errorf("certificate %v, %v, want an empty one", cert, err)
	}
	f.cluster.kubeletCert = filepath.Join(t.TempDir(), "none")
	if err := f.readFiles(c); err == nil {
		t.Error("a certificate that is not there is no error")
	}
}
