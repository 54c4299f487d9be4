// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/proxy/health"
)

// serve answers what the configuration asks for: checks of the proxy itself, and its metrics.
func (p *Proxy) serve(ctx context.Context) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	measured := http.NewServeMux()
	measured.Handle("/metrics", p.metrics.Handler())
	for path, text := range map[string]string{"/proxyMode": string(p.config.Mode), "/healthz": "ok"} {
		measured.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = fmt.Fprint(w, text) // whoever asked has gone
		})
	}
	for _, s := range []struct {
		address, what string
		handler       http.Handler
	}{{p.config.HealthzAddr, "health checks", health.Handler(p.Status, p.metrics.Checked)}, {p.config.MetricsAddr, "metrics", measured}} {
		if s.address == "" {
			continue
		}
		end, err := p.listen(ctx, s.address, s.what, s.handler)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, end)
	}
	return stop, nil
}

func (p *Proxy) listen(ctx context.Context, address, what string, handler http.Handler) (stop func(), err error) {
	ln, err := health.Listen(p.config.NetNS, address)
	if err != nil {
		return nil, fmt.Errorf("listening for %s of the service proxy on %q: %w", what, address, err)
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Serving failed", "what", what)
		}
	}()
	return func() {
		_ = srv.Close() // nothing of it is needed any more
		<-done
	}, nil
}
