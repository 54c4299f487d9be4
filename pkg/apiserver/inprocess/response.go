// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
)

const (
	// chunk is how much of an answer the client gets before its handler flushes it or returns, in bytes. It is also what a
	// stream keeps of a buffer that is empty.
	chunk = 64 << 10
	// window is how much may lie unread before the handler waits for its client, in bytes: a watch of a slow reader must not
	// grow without end.
	window = 1 << 20
)

// response is an answer on its way: the handler writes it, the client reads it.
type response struct {
	ctx    context.Context // of the handler
	cancel context.CancelFunc
	head   bool        // the client wants no body
	header http.Header // the handler's own

	committed chan struct{} // closed once the client may have status and header, or the error in their place

	mu       sync.Mutex // guards all below
	changed  sync.Cond  // with mu
	status   int        // 0 until there is one
	sent     http.Header
	started  bool  // committed is closed
	refused  error // in place of status and header
	unread   bytes.Buffer
	readable bool  // the client may have what is unread
	err      error // what comes after what is unread: io.EOF once the handler has returned
}

func newResponse(ctx context.Context, cancel context.CancelFunc, head bool) *response {
	w := &response{ctx: ctx, cancel: cancel, head: head, header: http.Header{}, committed: make(chan struct{})}
	w.changed.L = &w.mu
	return w
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Informational answers are left out, as clients do.
func (w *response) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *response) writeHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status, w.sent = status, w.header.Clone()
	}
}

// Write implements io.Writer. It waits while the client has too much to read.
func (w *response) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	if err := w.awaitRoom(); err != nil {
		return 0, err
	}
	if w.sent.Get("Content-Type") == "" && w.sent.Get("Content-Encoding") == "" && !w.started && w.unread.Len() == 0 {
		w.sent.Set("Content-Type", http.DetectContentType(p))
	}
	if w.head {
		return len(p), nil
	}
	w.unread.Write(p)
	if w.unread.Len() >= chunk {
		w.release()
	}
	return len(p), nil
}

// awaitRoom waits until the client has read what it has, and fails when nobody will.
func (w *response) awaitRoom() error {
	if w.err == nil && w.unread.Len() >= window {
		stop := context.AfterFunc(w.ctx, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changed.Broadcast()
		})
		defer stop()
	}
	for w.err == nil && w.unread.Len() >= window {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		w.changed.Wait()
	}
	return w.err
}

// Flush implements http.Flusher.
func (w *response) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	w.release()
}

// CloseNotify implements http.CloseNotifier: without it, the machinery's own writers hide Flush.
func (w *response) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(w.ctx, func() { gone <- true })
	return gone
}

// release lets the client read what is there.
func (w *response) release() {
	w.readable = w.unread.Len() > 0
	if !w.started {
		w.started = true
		close(w.committed)
	}
	w.changed.Broadcast()
}

// end is the handler's return; broken, if it gave up.
func (w *response) end(broken bool) {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil: // the client has gone
	case broken:
		w.breakOff(io.ErrUnexpectedEOF)
	default:
		w.writeHeader(http.StatusOK)
		w.err = io.EOF
	}
	w.release()
}

// fail is the client's end, or that of its patience.
func (w *response) fail(err error) {
	defer w.cancel() // not sooner: a handler that returns for that must not make what there is a whole answer
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.breakOff(err)
	}
	w.unread = bytes.Buffer{}
	w.release()
}

func (w *response) breakOff(err error) {
	w.err = err
	if !w.started {
		w.refused = err
	}
}

// toClient is what the client gets, once it is committed.
func (w *response) toClient(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused != nil {
		return nil, w.refused
	}
	length := int64(-1)
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil {
		length = n
	} else if w.err != nil && !w.head {
		length = int64(w.unread.Len())
	}
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: w.sent, Body: &responseBody{w}, ContentLength: length, Request: r,
	}, nil
}

// responseBody is the client's end of a response.
type responseBody struct{ *response }

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.readable && b.err == nil {
		b.changed.Wait()
	}
	if !b.readable {
		return 0, b.err
	}
	full := b.unread.Len() >= window
	n, err := b.unread.Read(p)
	if b.unread.Len() == 0 {
		b.readable = false
		if b.unread.Cap() > chunk {
			b.unread = bytes.Buffer{}
		}
	}
	if full {
		b.changed.Broadcast()
	}
	return n, err
}

// Close implements io.Closer.
func (b *responseBody) Close() error {
	b.fail(http.ErrBodyReadAfterClose)
	return nil
}
