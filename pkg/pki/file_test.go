// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// written writes a file that was changed at another time than it was before.
func written(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	changes++
	at := time.Unix(1_700_000_000+changes, 0)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

var changes int64

func TestKeyPairFiles(t *testing.T) {
	ca, err := NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	issue := func() Pair {
		pair, err := ca.Issue(Request{CommonName: "x", Hosts: []string{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	f := KeyPairFiles(cert, key)
	if _, err := f.Get(); err == nil {
		t.Error("a certificate from files that are not there")
	}
	first, second := issue(), issue()
	steps := []struct {
		name string
		do   func()
		want Pair
	}{
		{"written", func() { written(t, cert, first.Cert); written(t, key, first.Key) }, first},
		{"as it was", func() {}, first},
		{"the certificate is replaced, the key not yet", func() { written(t, cert, second.Cert) }, first},
		{"the key too", func() { written(t, key, second.Key) }, second},
		{"no file any more", func() {
			if err := os.Remove(key); err != nil {
				t.Fatal(err)
			}
		}, second},
		{"nonsense", func() { written(t, key, []byte("nonsense")) }, second},
		{"the first one again", func() { written(t, cert, first.Cert); written(t, key, first.Key) }, first},
	}
	for _, s := range steps {
		s.do()
		got, err := f.Get()
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		want, err := ParseCertificate(s.want.Cert)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Certificate[0], want.Raw) {
			t.Errorf("%s: another certificate than it should be", s.name)
		}
	}
}

// TestFiles_Hang: a file that cannot be read to an end holds up nobody but who reads it.
func TestFiles_Hang(t *testing.T) {
	ca, err := NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca")
	written(t, file, ca.Cert)
	f := PoolFile(file)
	first, err := f.Get()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	read := make(chan *x509.CertPool)
	go func() {
		pool, _ := f.Get() // an error would be no pool
		read <- pool
	}()
	// Who opens it to write waits for who reads it.
	writer, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := f.Get(); err != nil || got != first {
			t.Errorf("while it is read: %v, %v", got, err)
		}
	}
	other, err := NewCA("other")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(other.Cert); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	want := x509.NewCertPool()
	want.AppendCertsFromPEM(other.Cert)
	if got := <-read; !want.Equal(got) {
		t.Error("who has read it to its end has not what it says")
	}
}

func TestPoolFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca")
	written(t, file, []byte("nonsense"))
	f := PoolFile(file)
	if _, err := f.Get(); err == nil {
		t.Error("authorities from nonsense")
	}
	for range 2 { // the second has another authority
		ca, err := NewCA("test")
		if err != nil {
			t.Fatal(err)
		}
		written(t, file, ca.Cert)
		got, err := f.Get()
		if err != nil {
			t.Fatal(err)
		}
		want := x509.NewCertPool()
		want.AppendCertsFromPEM(ca.Cert)
		if !got.Equal(want) {
			t.Error("other authorities than those of the file")
		}
	}
}
