// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package activator is where all requests of functions come by: it gives them to pods, holds them while there is none, and counts them
// for the scaler. Touch it to change what happens to a request on its way.
package activator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Config is what an Activator needs; every field is set.
type Config struct {
	// Address is where it listens, with a port per function.
	Address netip.Addr
	// Wanted is called when a request begins to be held; it does not block.
	Wanted func(function types.NamespacedName)
	// Failed is called when nothing answers at a pod's address, or a request of it has timed out: it gets no more until routes have it
	// with another epoch. It does not block.
	Failed func(function types.NamespacedName, pod string)
	// Webhook says whether a request to a webhook of a function is from somebody who may call it: ErrNoWebhook, ErrUnproved, or an error
	// that is not the caller's. The context is the request's.
	Webhook func(ctx context.Context, function types.NamespacedName, webhook string, header http.Header, body []byte) error
	// Later keeps requests that nobody waits for.
	Later Later
}

// Activator has a server per function. Requests are forwarded once: a second pod is tried only if the first took no connection.
type Activator struct {
	config    Config
	transport *http.Transport
	// bodyPatience is the constant's value but in tests.
	bodyPatience time.Duration

	mu        sync.Mutex
	functions map[types.NamespacedName]*function // nil once it is closed
}

// errClosed is Serve's when all has ended: nobody would end another server.
var errClosed = errors.New("the activator is closed")

// function is a function's server.
type function struct {
	*balancer
	port   int
	direct http.Handler // of requests as the function gets them
	server *http.Server
}

// New returns an Activator without functions.
func New(config Config) *Activator {
	return &Activator{
		config: config,
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     30 * time.Second,
			DisableCompression:  true,
			WriteBufferSize:     16 << 10,
			ReadBufferSize:      16 << 10,
		},
		bodyPatience: bodyPatience,
		functions:    map[types.NamespacedName]*function{},
	}
}

// Serve begins to listen for a function, unless it does, and returns the port: the preferred one, if that is not 0 and free.
func (a *Activator) Serve(name types.NamespacedName, preferred int) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.functions == nil {
		return 0, fmt.Errorf("serving function %s: %w", name, errClosed)
	}
	if f := a.functions[name]; f != nil {
		return f.port, nil
	}
	listener, err := listen(a.config.Address, preferred)
	if err != nil {
		return 0, fmt.Errorf("listening for function %s: %w", name, err)
	}
	f := &function{balancer: newBalancer(func() { a.config.Wanted(name) }), port: listener.Addr().(*net.TCPAddr).Port}
	f.direct = a.direct(name, f.balancer)
	f.server = &http.Server{
		Handler:           a.webhooks(name, a.later(name, a.small(f.direct))),
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       120 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // clients that go away are no news
	}
	a.functions[name] = f
	go f.server.Serve(listener) //nolint:errcheck // it ends when it is closed
	return f.port, nil
}

func listen(address netip.Addr, preferred int) (net.Listener, error) {
	if preferred > 0 && preferred <= 65535 {
		if l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, uint16(preferred)))); err == nil {
			return l, nil
		}
	}
	return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0)))
}

func (a *Activator) function(name types.NamespacedName) *function {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.functions[name]
}

// Port is where a function is served; 0 if it is not.
func (a *Activator) Port(name types.NamespacedName) int {
	if f := a.function(name); f != nil {
		return f.port
	}
	return 0
}

// Route says where the requests of a function that is served go.
func (a *Activator) Route(name types.NamespacedName, routes Routes) {
	if f := a.function(name); f != nil {
		f.set(routes)
	}
}

// Stats are those of the revisions of a function.
func (a *Activator) Stats(name types.NamespacedName) map[string]Stats {
	if f := a.function(name); f != nil {
		return f.stats()
	}
	return nil
}

// Outstanding is how many requests a pod of a function has.
func (a *Activator) Outstanding(name types.NamespacedName, pod string) int {
	if f := a.function(name); f != nil {
		return f.outstanding(pod)
	}
	return 0
}

// Remove ends a function's server. Requests in pods have a while to end.
func (a *Activator) Remove(name types.NamespacedName) {
	a.mu.Lock()
	f := a.functions[name]
	delete(a.functions, name)
	a.mu.Unlock()
	if f == nil {
		return
	}
	f.remove()
	go f.stop(5 * time.Second)
}

func (f *function) stop(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.server.Shutdown(ctx); err != nil {
		_ = f.server.Close()
	}
}

// Close ends all servers, and no other begins.
func (a *Activator) Close() {
	a.mu.Lock()
	all := a.functions
	a.functions = nil
	a.mu.Unlock()
	var group sync.WaitGroup
	for _, f := range all {
		f.remove()
		group.Go(func() { f.stop(time.Second) })
	}
	group.Wait()
	a.transport.CloseIdleConnections()
}

// direct hands requests on to a function.
func (a *Activator) direct(name types.NamespacedName, b *balancer) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:      rewrite,
		Transport:    &forwarder{base: a.transport, balancer: b, failed: func(pod string) { a.config.Failed(name, pod) }},
		BufferPool:   buffers,
		ErrorHandler: answerError,
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	return limited(b, proxy)
}

// rewrite leaves the request as it came; which pod it goes to is decided when there is one.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host = "http", "function"
	r.Out.Host = r.In.Host
	if n := r.In.ContentLength; n > 0 && n <= smallBody {
		r.Out.Body = r.In.Body // without the proxy's wrapper, in which the transport does not see that it is in memory
	}
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
}

// limited refuses what is too large before anything of it has been forwarded, if the length is told.
func limited(b *balancer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		limit := b.routes.MaxBody
		b.mu.Unlock()
		if limit > 0 {
			if r.ContentLength > limit {
				answerError(w, r, &http.MaxBytesError{Limit: limit})
				return
			}
			if r.ContentLength < 0 {
				r.Body = http.MaxBytesReader(w, r.Body, limit)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// smallBody is how large a body may be that is read before its request has a pod.
const smallBody = 8 << 10

// small reads small bodies: what is in memory leaves in one write with its header, of which each costs more than all else that is done
// for a request, and a client that takes its time keeps no pod from others meanwhile.
func (a *Activator) small(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 0 && r.ContentLength <= smallBody {
			body, ok := a.whole(w, r, smallBody)
			if !ok {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// answerError says why a request has no answer of the function.
func answerError(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	message := "the function's pod gave no answer: " + err.Error()
	var tooLarge *http.MaxBytesError
	var refused refusedError
	switch {
	case r.Context().Err() != nil:
		return // the client has gone
	case errors.As(err, &tooLarge):
		status, message = http.StatusRequestEntityTooLarge, fmt.Sprintf("a request to a function has at most %d bytes", tooLarge.Limit)
	case errors.Is(err, errTimeout):
		status, message = http.StatusGatewayTimeout, errTimeout.Error()
	case errors.Is(err, ErrFull):
		status, message = http.StatusTooManyRequests, err.Error()
		w.Header().Set("Retry-After", "1")
	case errors.Is(err, errLate), errors.Is(err, errRemoved), errors.As(err, &refused):
		status, message = http.StatusServiceUnavailable, err.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	writeError(w, message)
}
