// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
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

// smallBody is how long a body may be that is read before its request is sent.
const smallBody = 8 << 10

// isSmall tells whether the body of a request is read before that is sent: what is in memory leaves in one write with the header, of which
// each costs more than all else that is done for a small request, and no backend waits for a slow client. One whose client wants to be
// told first whether to send it is not, nor one whose time is limited as a whole, nor one of HTTP/2, for which a client may take any time.
func (x *exchange) isSmall() bool {
	return x.in.ContentLength > 0 && x.in.ContentLength <= smallBody && x.in.ProtoMajor == 1 && x.in.Header.Get("Expect") == "" && x.route.RequestTimeout == 0
}

// fill reads all of the body, which is no longer than what is kept.
func (b *body) fill() error {
	_, err := io.Copy(io.Discard, b.reader(func() {}))
	return err
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

// reader reads from the beginning, and calls passed for each piece that comes from the client. Of a body that is all there it is a reader
// of memory, as transports know it.
func (b *body) reader(passed func()) io.ReadCloser {
	if content, ok := b.whole(-1); ok {
		return io.NopCloser(bytes.NewReader(content))
	}
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
