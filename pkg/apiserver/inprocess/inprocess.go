// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package inprocess brings requests to an API server of the same process, without a wire: no TLS, no HTTP/2, and no proof of who
// makes them, for that is known. Every filter and handler sees the request that it would see otherwise. Touch it when one of them
// looks at something that is missing here.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"
)

// Server is the server's end. Requests that come before Serve wait for it, as for a port on which nobody accepts yet; those after
// Close are refused. Safe for concurrent use.
type Server struct {
	serving chan struct{} // closed by Serve
	handler http.Handler  // not before serving

	base  context.Context // of all requests, until Close
	close context.CancelCauseFunc
}

// errClosed is what clients take for a server that has gone.
var errClosed = fmt.Errorf("the API server of this process has ended: %w", syscall.ECONNREFUSED)

// NewServer returns a Server that does not serve yet.
func NewServer() *Server {
	// Handlers of net/http find their server in the context; those that copy the answer of another server give up, when that
	// breaks off, only where they find one.
	base, cancel := context.WithCancelCause(context.WithValue(context.Background(), http.ServerContextKey, &http.Server{}))
	return &Server{serving: make(chan struct{}), base: base, close: cancel}
}

// Serve begins to serve by h. Call it once.
func (s *Server) Serve(h http.Handler) {
	s.handler = h
	close(s.serving)
}

// Close ends all requests that are under way, and does not wait for their handlers.
func (s *Server) Close() { s.close(errClosed) }

// Transport makes requests as u, who is not asked for a proof; as nobody, with what headers prove, if that is nil. Those that take
// over a connection, for which there must be one, go by wire.
func (s *Server) Transport(u user.Info, wire http.RoundTripper) http.RoundTripper {
	return &transport{server: s, user: u, wire: wire}
}

// userKey is where the context of a request has its *caller. No request from outside can have one.
type userKey struct{}

// caller is who makes a request, until it is authenticated.
type caller struct{ user atomic.Pointer[user.Info] }

// Authenticate is an authenticator.Request that knows the users of Transports, and has no opinion about requests by other ways. It
// knows each once: who asks again in the same context, as a TokenReview does, asks about somebody else.
func Authenticate(r *http.Request) (*authenticator.Response, bool, error) {
	c, ok := r.Context().Value(userKey{}).(*caller)
	if !ok {
		return nil, false, nil
	}
	u := c.user.Swap(nil)
	if u == nil {
		return nil, false, nil
	}
	return &authenticator.Response{User: *u}, true, nil
}

type transport struct {
	server *Server
	user   user.Info
	wire   http.RoundTripper
}

// CloseIdleConnections does so for clients that end.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.wire.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper. The handler runs in a goroutine of its own, in a context that has nothing of the client's
// but its end.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Upgrade") != "" {
		return t.wire.RoundTrip(r)
	}
	sent := &requestBody{body: r.Body}
	if err := t.await(r.Context()); err != nil {
		_ = sent.Close()
		return nil, err
	}
	base := t.server.base
	if t.user != nil {
		c := &caller{}
		c.user.Store(&t.user)
		base = context.WithValue(base, userKey{}, c)
	}
	ctx, cancel := context.WithCancel(base)
	answer := newResponse(ctx, cancel, r.Method == http.MethodHead)
	unregister := context.AfterFunc(r.Context(), func() { answer.fail(context.Cause(r.Context())) })
	if r.Body != nil && r.Body != http.NoBody {
		context.AfterFunc(ctx, func() { _ = sent.Close() }) // not by the handler, who may be waiting for it
	}
	in := received(ctx, r, sent)
	go func() {
		defer unregister()
		defer func() {
			p := recover()
			if err, _ := p.(error); p != nil && !errors.Is(err, http.ErrAbortHandler) { // by which handlers break off
				klog.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "Serving a request", "method", r.Method, "path", in.URL.Path)
			}
			answer.end(p != nil || t.server.base.Err() != nil)
		}()
		t.server.handler.ServeHTTP(answer, in)
	}()
	select {
	case <-answer.committed:
		return answer.toClient(r)
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// await waits until requests are served.
func (t *transport) await(ctx context.Context) error {
	select {
	case <-t.server.serving:
	case <-t.server.base.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if t.server.base.Err() != nil {
		return errClosed
	}
	return nil
}

// remoteAddr is who is said to have connected: this machine.
const remoteAddr = "127.0.0.1:0"

// received is a client's request as a server of HTTP/2 would have read it.
func received(ctx context.Context, r *http.Request, body *requestBody) *http.Request {
	in := &http.Request{
		Method: r.Method, Proto: "HTTP/2.0", ProtoMajor: 2,
		URL:  &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery},
		Host: r.Host, Header: r.Header.Clone(), RemoteAddr: remoteAddr, RequestURI: r.URL.RequestURI(),
		Body: body, ContentLength: r.ContentLength,
	}
	if in.Method == "" {
		in.Method = http.MethodGet
	}
	if in.URL.Path == "" {
		in.URL.Path = "/"
	}
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Header == nil {
		in.Header = http.Header{}
	}
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		in.Body, in.ContentLength = http.NoBody, 0
	case r.ContentLength == 0: // of a client that does not know it
		in.ContentLength = -1
	}
	if in.ContentLength > 0 || in.ContentLength == 0 && slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, in.Method) {
		in.Header.Set("Content-Length", strconv.FormatInt(in.ContentLength, 10))
	}
	if in.Header.Get("User-Agent") == "" {
		in.Header.Set("User-Agent", "Go-http-client/2.0")
	}
	return in.WithContext(ctx)
}

// requestBody is a body that nobody begins to read once the request is over: then it is the client's again.
type requestBody struct {
	body   io.ReadCloser // may be nil
	closed atomic.Bool
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.body.Read(p)
}

// Close implements io.Closer. It does not wait for a read that is under way, which may wait for what ends by this.
func (b *requestBody) Close() error {
	if b.body == nil || b.closed.Swap(true) {
		return nil
	}
	return b.body.Close()
}
