// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// Files are certificates in files that somebody else renews. Safe for concurrent use.
type Files[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)

	mu   sync.Mutex
	seen []state // guarded by mu, like all below; nil before the first reading
	last T
}

// state is what a file shows that has not changed.
type state struct {
	size     int64
	modified time.Time
}

// KeyPairFiles is a certificate with the authorities between it and one that is trusted, and its key, in PEM.
func KeyPairFiles(cert, key string) *Files[*tls.Certificate] {
	return &Files[*tls.Certificate]{paths: []string{cert, key}, parse: func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		return &pair, err
	}}
}

// PoolFile are the certificates of authorities in a file in PEM.
func PoolFile(path string) *Files[*x509.CertPool] {
	return &Files[*x509.CertPool]{paths: []string{path}, parse: func(contents [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return nil, errors.New("no certificate in it")
		}
		return pool, nil
	}}
}

// Get is what the files have. While they cannot be read, or one does not fit the other as one has been replaced and the other not yet, that
// is what they had before; it is an error only if there is nothing from before.
func (f *Files[T]) Get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen, contents, err := f.read()
	if err == nil && contents != nil {
		var parsed T
		if parsed, err = f.parse(contents); err == nil {
			f.seen, f.last = seen, parsed
		}
	}
	if err != nil && f.seen == nil {
		return f.last, fmt.Errorf("reading certificates from %q: %w", f.paths, err)
	}
	return f.last, nil
}

// read returns no contents if the files are as they were at the last reading that came to something.
func (f *Files[T]) read() (seen []state, contents [][]byte, err error) {
	same := f.seen != nil
	for i, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, err
		}
		now := stateOf(info)
		seen, same = append(seen, now), same && now == f.seen[i]
	}
	if same {
		return nil, nil, nil
	}
	for _, path := range f.paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		contents = append(contents, content)
	}
	return seen, contents, nil
}

func stateOf(info fs.FileInfo) state { return state{info.Size(), info.ModTime()} }
