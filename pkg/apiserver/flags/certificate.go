// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"bytes"
	"crypto/tls"
	"os"
	"sync"

	"k8s.io/klog/v2"
)

// pairFiles hold a certificate and its key, which are replaced from time to time, one after the other.
type pairFiles struct {
	certFile, keyFile string

	mu        sync.Mutex // guards all below
	cert, key []byte
	pair      *tls.Certificate
}

// followed returns the certificate that the files hold now: the same pointer until they change, and the last good one while they do not fit.
func followed(certFile, keyFile string) (func() (*tls.Certificate, error), error) {
	f := &pairFiles{certFile: certFile, keyFile: keyFile}
	if err := f.read(); err != nil {
		return nil, err
	}
	return func() (*tls.Certificate, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if err := f.read(); err != nil {
			klog.ErrorS(err, "Reading a certificate: the previous one stays in use", "file", certFile)
		}
		return f.pair, nil
	}, nil
}

func (f *pairFiles) read() error {
	cert, err := os.ReadFile(f.certFile)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(f.keyFile)
	if err != nil {
		return err
	}
	if bytes.Equal(cert, f.cert) && bytes.Equal(key, f.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	f.cert, f.key, f.pair = cert, key, &pair
	return nil
}
