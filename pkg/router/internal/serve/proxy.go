// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// proxy sends requests to endpoints. It has a pool of connections to each.
type proxy struct {
	table *atomic.Pointer[table.Table]
	*transports
	mirrors chan struct{} // has an element for each mirrored request on its way
	context context.Context
	// bodyTime is how long a client may take for the next piece of a body of known length.
	bodyTime time.Duration
	sent     sync.WaitGroup // mirrored requests
}

func newProxy(ctx context.Context, t *atomic.Pointer[table.Table]) *proxy {
	return &proxy{bodyTime: bodyTime, context: ctx, table: t, transports: newTransports(), mirrors: make(chan struct{}, maxMirrors)}
}

// close is called when the context has ended.
func (p *proxy) close() {
	p.sent.Wait()
	p.closeIdle()
}

// Why there is no answer of a backend.
var (
	errNoEndpoint = errors.New("no endpoint is ready")
	errTimeout    = errors.New("the time of the request is up")
)

// exchange is one request on its way.
type exchange struct {
	*proxy
	route   *table.Route
	chosen  *table.WeightedBackend
	in      *http.Request
	body    *body
	out     *http.Request // as a backend sees it, but for its address
	mirrors []table.Mirror
	// certificate is what backends are shown; nil: none.
	certificate *tls.Certificate
}

// serve answers a request that has found its route. port is where it came in, certificate what backends are shown.
func (p *proxy) serve(w http.ResponseWriter, r *http.Request, route *table.Route, port int, certificate *tls.Certificate) {
	x := &exchange{proxy: p, route: route, in: r, chosen: route.Choose(), certificate: certificate}
	if cors := x.cors(); cors.Preflight(r) {
		cors.Apply(w.Header(), r, true)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	redirect := route.Redirect
	if x.chosen != nil && redirect == nil {
		redirect = x.chosen.Filters.Redirect
	}
	switch {
	case redirect != nil:
		x.finish(w.Header())
		w.Header().Set("Location", redirect.Location(r, route.Match.Path, scheme(r), port))
		w.WriteHeader(redirect.Code)
		return
	case x.chosen == nil || x.chosen.Backend == nil:
		x.fail(w, http.StatusInternalServerError)
		return
	case len(x.chosen.Backend.Endpoints) == 0:
		x.unavailable(w)
		return
	}
	x.forward(w)
}

// cors is what the backend says of other origins, or else the route.
func (x *exchange) cors() *table.CORS {
	if x.chosen != nil && x.chosen.Filters.CORS != nil {
		return x.chosen.Filters.CORS
	}
	return x.route.CORS
}

// finish changes the header of an answer as the route says.
func (x *exchange) finish(answer http.Header) {
	x.cors().Apply(answer, x.in, false)
	x.route.Response.Apply(answer)
	if x.chosen != nil {
		x.chosen.Filters.Response.Apply(answer)
	}
}

func (x *exchange) fail(w http.ResponseWriter, code int) {
	x.finish(w.Header())
	answer(w, code)
}

// unavailable answers for a backend that has no endpoint.
func (x *exchange) unavailable(w http.ResponseWriter) {
	text := x.chosen.Backend.Absent
	if text == "" {
		x.fail(w, http.StatusServiceUnavailable)
		return
	}
	x.finish(w.Header())
	http.Error(w, text, http.StatusServiceUnavailable)
}

func (x *exchange) forward(w http.ResponseWriter) {
	ctx, in := x.in.Context(), x.in
	if in.Header.Get("Upgrade") != "" {
		defer endsClient(ctx)()
	}
	if d := x.route.RequestTimeout; d > 0 {
		limited, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer time.AfterFunc(d, func() { cancel(errTimeout) }).Stop()
		ctx, in = limited, in.WithContext(limited)
	}
	x.mirrors = x.mirrored()
	if in.Body != nil && in.Body != http.NoBody {
		keep, small := x.keep(), x.isSmall()
		if small {
			keep = max(keep, smallBody)
		}
		x.body = newBody(in.Body, keep)
		if in.ContentLength > 0 && in.ProtoMajor == 1 { // else it may be a stream, which is silent as long as it likes
			c := http.NewResponseController(w)
			x.body.deadline, x.body.wait = func(t time.Time) { _ = c.SetReadDeadline(t) }, x.bodyTime
		}
		if small {
			if err := x.body.fill(); err != nil {
				x.fail(w, statusOf(ctx, err))
				return
			}
		}
	}
	proxy := httputil.ReverseProxy{
		Rewrite: x.rewrite, Transport: x, BufferPool: buffers{}, ErrorLog: quiet,
		ModifyResponse: func(answer *http.Response) error {
			x.finish(answer.Header)
			return nil
		},
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { x.fail(w, statusOf(ctx, err)) },
		FlushInterval: flushInterval,
	}
	proxy.ServeHTTP(w, in)
	x.mirror()
}

// endsClient closes the connection of a request's client when ctx ends, until stop is called: one that was upgraded is no longer the
// server's, and a client that does not read what it is sent would keep the request.
func endsClient(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if c, ok := ctx.Value(clientKey{}).(net.Conn); ok {
			_ = c.Close()
		}
	})
}

// flushInterval is how long a piece of an answer of known length may wait for more. Others are passed on as they come, each piece by a
// write of its own, which costs more than all else that is done for a small answer.
const flushInterval = 20 * time.Millisecond

// statusOf is the answer to a request that no backend has answered.
func statusOf(ctx context.Context, err error) int {
	var timeout net.Error
	switch {
	case errors.Is(err, errNoEndpoint):
		return http.StatusServiceUnavailable
	case errors.Is(err, errTimeout), errors.Is(context.Cause(ctx), errTimeout), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// rewrite makes the request that a backend sees. What the client says about itself in X-Forwarded-* and X-Real-IP is dropped: backends
// believe it of a proxy.
func (x *exchange) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme = "http"
	r.Out.URL.RawQuery = r.In.URL.RawQuery // also what Go cannot parse
	r.Out.Host = r.In.Host
	r.Out.Trailer = r.In.Trailer // is filled when the body has ended
	r.SetXForwarded()
	r.Out.Header.Set("X-Real-Ip", r.Out.Header.Get("X-Forwarded-For"))
	r.Out.Header.Del("X-Forwarded-Port")
	for _, f := range []*table.Filters{&x.route.Filters, &x.chosen.Filters} {
		f.Request.Apply(r.Out.Header)
		if host := r.Out.Header.Get("Host"); host != "" {
			r.Out.Host = host
			r.Out.Header.Del("Host")
		}
		if f.Rewrite == nil {
			continue
		}
		if f.Rewrite.Host != "" {
			r.Out.Host = f.Rewrite.Host
		}
		if f.Rewrite.Path != nil {
			setPath(r.Out.URL, f.Rewrite.Path.Of(r.In.URL.EscapedPath(), x.route.Match.Path))
		}
	}
}

func setPath(u *url.URL, escaped string) {
	if path, err := url.PathUnescape(escaped); err == nil {
		u.Path, u.RawPath = path, escaped
	}
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// buffers are for copying bodies.
type buffers struct{}

const bufferSize = 32 << 10

var bufferPool = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func (buffers) Get() []byte { return bufferPool.Get().(*[bufferSize]byte)[:] }

func (buffers) Put(b []byte) { bufferPool.Put((*[bufferSize]byte)(b)) }

// discardBody reads what is left of an answer that nobody wants, if it is little, so that its connection can be used again.
func discardBody(answer *http.Response) {
	_, _ = io.CopyN(io.Discard, answer.Body, bufferSize)
	_ = answer.Body.Close()
}
