// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"minik8s.io/minik8s/pkg/router/internal/table"
)

const (
	// maxMirrors is how many copies are on their way at a time; what comes then is not mirrored.
	maxMirrors = 512
	// mirrorTime is how long one may take.
	mirrorTime = 15 * time.Second
	// maxMirrored and maxRetried are how large bodies may be that are mirrored, and sent again.
	maxMirrored = 1 << 20
	maxRetried  = 64 << 10
)

// mirrored are the mirrors that get a copy of this request.
func (x *exchange) mirrored() []table.Mirror {
	if len(x.route.Mirrors) == 0 && len(x.chosen.Filters.Mirrors) == 0 {
		return nil
	}
	var chosen []table.Mirror
	for _, mirrors := range [][]table.Mirror{x.route.Mirrors, x.chosen.Filters.Mirrors} {
		for _, m := range mirrors {
			if m.Backend != nil && m.Denominator > 0 && rand.Uint32N(m.Denominator) < m.Numerator {
				chosen = append(chosen, m)
			}
		}
	}
	return chosen
}

// keep is how much of the body is kept.
func (x *exchange) keep() int {
	switch {
	case len(x.mirrors) > 0:
		return maxMirrored
	case x.route.Retry.Attempts > 0:
		return maxRetried
	}
	return 0
}

// mirror sends copies of a request that was answered. One whose body is too large, or was not all read, is not mirrored.
func (x *exchange) mirror() {
	if len(x.mirrors) == 0 || x.out == nil {
		return
	}
	content, ok := x.body.whole(x.in.ContentLength)
	if !ok {
		return
	}
	for _, m := range x.mirrors {
		endpoint := m.Backend.Next()
		if endpoint == "" {
			continue
		}
		select {
		case x.proxy.mirrors <- struct{}{}:
		default:
			return
		}
		ctx, cancel := context.WithTimeout(x.context, mirrorTime)
		out := x.out.Clone(ctx)
		out.URL.Host = endpoint
		out.Body, out.ContentLength, out.Trailer = http.NoBody, 0, nil
		if len(content) > 0 {
			out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
		}
		out.URL.Scheme = "http"
		if m.Backend.TLS != nil {
			out.URL.Scheme = "https"
		}
		transport := x.transport(m.Backend, x.certificate)
		x.sent.Go(func() {
			defer func() {
				cancel()
				<-x.proxy.mirrors
			}()
			if answer, err := transport.RoundTrip(out); err == nil {
				discardBody(answer)
			}
		})
	}
}
