// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

// maxFailures is how many endpoints a request may lose before they have answered, maxRefusals how many it may find gone: these have
// got nothing of it, and where pods come and go quickly there may be several until the table knows.
const maxFailures, maxRefusals = 3, 10

// refusalPause is how long a request that has found all endpoints gone waits until it tries one again, for the table may be about to
// know others. Each further pause is twice as long; all are half a second together.
const refusalPause = time.Millisecond

// RoundTrip sends the request to an endpoint, and to another one if that does no harm: nothing of it was sent, or it is one
// that may be sent twice, or the route wants it.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	var tried []string
	x.out = r
	for failures, refusals, retries := 0, 0, 0; ; {
		backend := x.backend()
		endpoint := untried(backend, tried)
		if endpoint == "" {
			return nil, errNoEndpoint
		}
		tried = append(tried, endpoint)
		answer, err := x.attempt(r, backend, endpoint)
		again, pause := false, time.Duration(0)
		switch {
		case r.Context().Err() != nil:
		case err == nil:
			again, pause = retries < x.route.Retry.Attempts && slices.Contains(x.route.Retry.Codes, answer.StatusCode), x.route.Retry.Backoff
		case retries < x.route.Retry.Attempts:
			again, pause = true, x.route.Retry.Backoff
		case unsent(err):
			if refusals++; refusals >= len(backend.Endpoints) {
				pause = refusalPause << (refusals - len(backend.Endpoints))
			}
			again = refusals < maxRefusals
			retries-- // such a one does not count
		default:
			failures++
			again = failures < maxFailures && harmless(r, err)
			retries--
		}
		if !again || !x.body.again() {
			return answer, err
		}
		if err == nil {
			_ = answer.Body.Close() // what is left of it may never come
		}
		retries++
		if err := wait(r.Context(), pause); err != nil {
			return nil, err
		}
	}
}

// backend is the chosen one as it is now: a request that finds an endpoint gone wants to know those that have come.
func (x *exchange) backend() *table.Backend {
	if b := x.table.Load().Backends[x.chosen.Backend.Key]; b != nil {
		return b
	}
	return x.chosen.Backend
}

// untried is the next endpoint, if possible one that was not tried.
func untried(b *table.Backend, tried []string) string {
	endpoint := b.Next()
	for range b.Endpoints {
		if !slices.Contains(tried, endpoint) {
			break
		}
		endpoint = b.Next()
	}
	return endpoint
}

// wait returns after a pause, or with an error when the request has ended before.
func wait(ctx context.Context, pause time.Duration) error {
	if pause == 0 {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attempt sends the request to one endpoint. The time for the attempt ends with its body.
func (x *exchange) attempt(r *http.Request, backend *table.Backend, endpoint string) (*http.Response, error) {
	ctx, cancel := r.Context(), func(error) {}
	limited := x.route.HeaderTimeout != 0 || x.route.BackendTimeout != 0
	if limited {
		ctx, cancel = context.WithCancelCause(ctx)
	}
	out := r.WithContext(ctx)
	target := *r.URL
	target.Host = endpoint
	out.URL = &target
	silent := &silence{limit: x.route.HeaderTimeout, timer: limit(x.route.HeaderTimeout, cancel)}
	if x.body != nil {
		out.Body = x.body.reader(silent.again)
	}
	total := limit(x.route.BackendTimeout, cancel)
	transport := x.transport(backend, x.certificate)
	if backend.TLS != nil {
		target.Scheme = "https"
	}
	answer, err := transport.RoundTrip(out)
	silent.end()
	switch {
	case err != nil:
		stop(total)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	case answer.StatusCode == http.StatusSwitchingProtocols:
		stop(total)
	case limited:
		answer.Body = &limitedBody{answer.Body, total, cancel}
	}
	return answer, nil
}

// silence is how long a backend has to begin its answer, from the last piece of the request on: an upload takes what it takes.
type silence struct {
	limit time.Duration
	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil if there is no limit, and when the backend has answered
}

// again begins the time anew.
func (s *silence) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Reset(s.limit)
	}
}

// end is for good, also if the rest of the request is sent later.
func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop(s.timer)
	s.timer = nil
}

// limitedBody is the body of an answer, with which the time for its attempt ends: a timer keeps all of a request until it fires.
type limitedBody struct {
	io.ReadCloser
	total  *time.Timer // nil if only the header had a limit
	cancel context.CancelCauseFunc
}

// Close ends the attempt.
func (b *limitedBody) Close() error {
	stop(b.total)
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

func limit(d time.Duration, cancel context.CancelCauseFunc) *time.Timer {
	if d == 0 {
		return nil
	}
	return time.AfterFunc(d, func() { cancel(errTimeout) })
}

// stop stops a timer, if there is one.
func stop(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

// unsent tells whether an endpoint was not reached at all.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// harmless tells whether a request that failed may be sent to another endpoint.
func harmless(r *http.Request, err error) bool {
	if errors.Is(err, errTimeout) {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}
