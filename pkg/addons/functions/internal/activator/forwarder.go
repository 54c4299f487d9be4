// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

var errTimeout = errors.New("the function took longer than its timeoutSeconds")

// forwarder brings a request to a pod of the balancer's.
type forwarder struct {
	base     http.RoundTripper
	balancer *balancer
	failed   func(pod string)
}

// tries is how many pods a request is offered to; each but the last took no connection, so that nothing of it was sent.
const tries = 5

// RoundTrip sends the request to a pod, after it has been held if need be, and has it count until the answer has been read.
func (f *forwarder) RoundTrip(req *http.Request) (*http.Response, error) {
	var err error
	for range tries {
		var p *pod
		if p, err = f.balancer.acquire(req.Context()); err != nil {
			return nil, err
		}
		var resp *http.Response
		if resp, err = f.send(req, p); err == nil {
			return resp, nil
		}
		var op *net.OpError
		unsent := errors.As(err, &op) && op.Op == "dial"
		var upload uploadError
		clients := req.Context().Err() != nil || errors.As(err, &upload)
		// A pod that broke off may be about to end: what comes next would be lost with it.
		if news := f.balancer.release(p, !clients); news {
			f.failed(p.Name)
		}
		if !unsent || req.Context().Err() != nil {
			return nil, err
		}
	}
	return nil, err
}

func (f *forwarder) send(req *http.Request, p *pod) (*http.Response, error) {
	f.balancer.mu.Lock()
	timeout, address := f.balancer.routes.Timeout, p.Address
	f.balancer.mu.Unlock()
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(timeout, func() { cancel(errTimeout) })
	out := req.WithContext(ctx)
	target := *req.URL
	target.Host = address
	out.URL = &target
	out.Body = bodyOf(out)
	resp, err := f.base.RoundTrip(out)
	if err != nil {
		timer.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errTimeout) {
			err = errTimeout
		}
		cancel(nil)
		return nil, err
	}
	end := sync.OnceFunc(func() {
		timer.Stop()
		late := errors.Is(context.Cause(ctx), errTimeout)
		cancel(nil)
		if f.balancer.release(p, late) {
			f.failed(p.Name)
		}
	})
	if both, ok := resp.Body.(io.ReadWriteCloser); ok { // the connection has changed its protocol, and may last
		timer.Stop()
		resp.Body = &upgraded{ReadWriteCloser: both, end: end}
	} else {
		resp.Body = &body{ReadCloser: resp.Body, end: end}
	}
	return resp, nil
}

// bodyOf is the body that the transport is given. A request without one it would send again by itself if that seems to do no harm,
// although the pod may have had it.
func bodyOf(r *http.Request) io.ReadCloser {
	empty := r.Body == nil || r.Body == http.NoBody
	switch {
	case empty && repeatable(r):
		return emptyBody{}
	case empty:
		return http.NoBody
	case r.ContentLength > 0 && r.ContentLength <= smallBody: // it is in memory, which the transport is to know
		return r.Body
	}
	return upload{r.Body}
}

// repeatable tells whether net/http's transport takes it that a request does the same twice as once.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// upload is the body of a request. It is not closed, since it is still needed when the transport gets no connection; the server does so.
type upload struct{ io.Reader }

func (u upload) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = uploadError{err}
	}
	return n, err
}

func (upload) Close() error { return nil }

// uploadError is that a request could not be read, which says nothing of the pod.
type uploadError struct{ error }

func (e uploadError) Unwrap() error { return e.error }

// emptyBody is a body of no bytes which the transport does not know to be one.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// body says when it has been read.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// upgraded is a connection of another protocol that says when it ends.
type upgraded struct {
	io.ReadWriteCloser
	end func()
}

func (u *upgraded) Close() error {
	err := u.ReadWriteCloser.Close()
	u.end()
	return err
}

// buffers are for copying answers.
var buffers = &bufferPool{}

type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32<<10)
}

func (b *bufferPool) Put(buffer []byte) { b.pool.Put(&buffer) }

func writeError(w io.Writer, message string) {
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message}) // a client that has gone wants no answer
}
