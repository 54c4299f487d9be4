// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// body is the body of a request that may be sent more than once. What was read is kept, up to a limit.
type body struct {
	mu     sync.Mutex
	source io.Reader // guarded by mu
	kept   []byte    // guarded by mu
	keep   int
	lost   bool  // guarded by mu; more was read than is kept
	err    error // guarded by mu; how the source ended
	last   *bodyReader
	// deadline, if there is one, sets when the source gives up.
	deadline func(time.Time)
	wait     time.Duration
}

func newBody(source io.Reader, keep int) *body {
	return &body{source: source, keep: keep, deadline: func(time.Time) {}}
}

var errBodyClosed = errors.New("the body was closed")

// again tells whether all that was read of it is still there. A nil body is always. If the reader before waits for the client, so
// does this.
func (b *body) again() bool {
	if b == nil {
		return true
	}
	// Whoever still reads stops: from here on bytes would be lost to the next reader.
	if b.last != nil {
		b.last.closed.Store(true)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.lost
}

// whole returns the body if all of it was read and kept. length is its length, negative if it is not known.
func (b *body) whole(length int64) ([]byte, bool) {
	if b == nil {
		return nil, true
	}
	if !b.mu.TryLock() { // somebody still reads
		return nil, false
	}
	defer b.mu.Unlock()
	return b.kept, !b.lost && (errors.Is(b.err, io.EOF) || int64(len(b.kept)) == length)
}

// reader reads from the beginning, and calls passed for each piece that comes from the client.
func (b *body) reader(passed func()) io.ReadCloser {
	b.last = &bodyReader{body: b, passed: passed}
	return b.last
}

type bodyReader struct {
	body   *body
	passed func()
	at     int
	closed atomic.Bool
}

// Read holds the lock while the client is waited for: only the reader before this one can want it, to find that it was closed.
func (r *bodyReader) Read(p []byte) (int, error) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.closed.Load() {
		return 0, errBodyClosed
	}
	if r.at < len(b.kept) {
		n := copy(p, b.kept[r.at:])
		r.at += n
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	b.deadline(time.Now().Add(b.wait))
	n, err := b.source.Read(p)
	r.passed()
	b.err = err
	if err == io.EOF {
		b.deadline(time.Time{}) // the connection is watched for its end from now on
	}
	if len(b.kept)+n > b.keep {
		b.lost, b.kept = true, nil
	}
	if !b.lost {
		b.kept = append(b.kept, p[:n]...)
		r.at += n
	}
	return n, err
}

// Close does not wait for a Read.
func (r *bodyReader) Close() error {
	r.closed.Store(true)
	return nil
}
