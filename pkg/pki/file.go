// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// Files are certificates in files that somebody else renews. Safe for concurrent use.
type Files[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)

	last    atomic.Pointer[content[T]] // nil before the first reading
	reading sync.Mutex                 // held by whoever looks at the files
	failure string                     // that of the last look, "" if there was none; guarded by reading
}

// content is what files had when they were as seen.
type content[T any] struct {
	seen  []os.FileInfo
	value T
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
// is what they had before, and the log tells why; it is an error only if there is nothing from before. Nobody waits for somebody else's look
// at the files, once there is something: a file system may hang.
func (f *Files[T]) Get() (T, error) {
	last := f.last.Load()
	if last == nil {
		f.reading.Lock()
	} else if !f.reading.TryLock() {
		return last.value, nil
	}
	defer f.reading.Unlock()
	last = f.last.Load() // another may have looked meanwhile
	now, err := f.look(last)
	if err != nil && last == nil {
		return *new(T), err
	}
	f.tell(err)
	if err != nil {
		return last.value, nil
	}
	f.last.Store(now)
	return now.value, nil
}

// look returns last itself if the files are as they were then.
func (f *Files[T]) look(last *content[T]) (*content[T], error) {
	now := &content[T]{}
	same := last != nil
	for i, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("reading certificates: %w", err)
		}
		now.seen = append(now.seen, info)
		same = same && unchanged(last.seen[i], info)
	}
	if same {
		return last, nil
	}
	var contents [][]byte
	for _, path := range f.paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading certificates: %w", err)
		}
		contents = append(contents, data)
	}
	var err error
	if now.value, err = f.parse(contents); err != nil {
		return nil, fmt.Errorf("reading certificates from %q: %w", f.paths, err)
	}
	return now, nil
}

func unchanged(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// tell logs a failure once, however often it is met. The caller holds f.reading.
func (f *Files[T]) tell(err error) {
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if failure != "" && failure != f.failure {
		klog.Background().Error(err, "Certificates in files cannot be renewed, those from before still count")
	}
	f.failure = failure
}
