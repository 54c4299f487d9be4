// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"minik8s.io/minik8s/pkg/pki"
)

func TestConfig_Files(t *testing.T) {
	dir := t.TempDir()
	cert, key, authority := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "ca")
	renewed := time.Unix(1_700_000_000, 0)
	// write writes new ones and returns the certificate and its authority.
	write := func() (*x509.Certificate, *x509.CertPool) {
		ca, err := pki.NewCA("test")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := ca.Issue(pki.Request{CommonName: "system:node:n", Organizations: []string{"system:nodes"}, Hosts: []string{"n"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(cert, pair.Cert, 0o600), os.WriteFile(key, pair.Key, 0o600), os.WriteFile(authority, ca.Cert, 0o600)); err != nil {
			t.Fatal(err)
		}
		renewed = renewed.Add(time.Second) // a file is seen to have changed by when it has
		for _, file := range []string{cert, key, authority} {
			if err := os.Chtimes(file, renewed, renewed); err != nil {
				t.Fatal(err)
			}
		}
		parsed, err := pki.ParseCertificate(pair.Cert)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca.Cert)
		return parsed, pool
	}
	settings := &kubeletconfigv1beta1.KubeletConfiguration{TLSCertFile: cert, TLSPrivateKeyFile: key}
	settings.Authentication.X509.ClientCAFile = authority
	c := Config{Configuration: settings}
	if err := c.files(); err == nil {
		t.Error("a kubelet starts without the files of its certificate")
	}
	write()
	settings.ServerTLSBootstrap = true
	if err := c.files(); err != nil || c.Certificate != nil {
		t.Errorf("%v; a certificate of files, where one of the cluster is wanted: %t", err, c.Certificate != nil)
	}
	settings.ServerTLSBootstrap = false
	if err := c.files(); err != nil {
		t.Fatal(err)
	}
	want, pool := write() // renewed
	serving, err := c.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	if !serving.Leaf.Equal(want) {
		t.Error("it serves with another certificate than that of the file")
	}
	authorities, err := c.ClientCAs()
	if err != nil {
		t.Fatal(err)
	}
	if !authorities.Equal(pool) {
		t.Error("other authorities than those of the file")
	}
}
