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
	"minik8s.io/minik8s/pkg/zpages"
)

// component is what upstream's proxy calls itself.
const component = "kube-proxy"

// serve answers what the configuration asks for: checks of the proxy itself, and what it tells of itself.
func (p *Proxy) serve(ctx context.Context) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	for _, s := range []struct {
		address, what string
		handler       http.Handler
	}{{p.config.HealthzAddr, "health checks", health.Handler(p.Status, p.metrics.Checked)}, {p.config.MetricsAddr, "metrics", p.introspection()}} {
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

// introspection is what the proxy tells of itself: its metrics, settings and mode, who it is, and that it answers.
func (p *Proxy) introspection() http.Handler {
	mux := http.NewServeMux()
	checks := zpages.NewIndicators()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		const check = "ping" // an answer is all that is checked
		checks.Observe(check, nil)
		if _, verbose := r.URL.Query()["verbose"]; verbose {
			plain(w, "[+]"+check+" ok\nhealthz check passed\n")
			return
		}
		plain(w, "ok")
	})
	mux.HandleFunc("/healthz/ping", func(w http.ResponseWriter, _ *http.Request) { plain(w, "ok") })
	mux.Handle("/metrics", p.metrics.Handler())
	mux.Handle("/metrics/slis", checks.Handler())
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) { plain(w, string(p.config.Mode)) })
	mux.HandleFunc("/configz", p.configz)
	// What other flags of upstream's say is told by /configz.
	mux.Handle("/flagz", zpages.Flagz(component, map[string]string{"hostname-override": p.config.NodeName}))
	mux.Handle("/statusz", zpages.Statusz(component, p.config.Clock, "/configz", "/flagz", "/healthz", "/metrics", "/proxyMode"))
	return mux
}

func plain(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = fmt.Fprint(w, text) // whoever asked has gone
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
