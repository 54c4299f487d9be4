// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"minik8s.io/minik8s/pkg/zpages"
)

// TestSwitchedOff checks what is answered where settings have switched a path off.
func TestSwitchedOff(t *testing.T) {
	none := prometheus.NewRegistry()
	base := Config{Host: &fakeHost{}, Metrics: none, Cadvisor: none, ProbeMetrics: none, LogDir: t.TempDir()}
	tests := []struct {
		name, path string
		change     func(*Config)
		code       int
		body       string // part of it
	}{
		{"logs of the node", "/logs/", func(*Config) {}, 200, ""},
		{"no logs of the node", "/logs/", func(c *Config) { c.LogDir = "" }, 405, "logs endpoint is disabled."},
		{"no profiles", "/debug/pprof/heap", func(c *Config) { c.NoProfiling = true }, 405, "profiling endpoint is disabled."},
		{"no debugging: logs", "/containerLogs/ns/p/c", func(c *Config) { c.NoDebugging = true }, 405, "Debug endpoints are disabled."},
		{"no debugging: exec", "/exec/ns/p/c", func(c *Config) { c.NoDebugging = true }, 405, "Debug endpoints are disabled."},
		{"no debugging: logs of the node", "/logs/", func(c *Config) { c.NoDebugging = true }, 405, "Debug endpoints are disabled."},
		{"no debugging: profiles", "/debug/pprof/", func(c *Config) { c.NoDebugging = true }, 405, "Debug endpoints are disabled."},
		{"no debugging: configz", "/configz", func(c *Config) { c.NoDebugging = true }, 404, ""},
		{"no debugging: metrics", "/metrics/cadvisor", func(c *Config) { c.NoDebugging = true }, 200, ""},
		{"no debugging: pods", "/pods", func(c *Config) { c.NoDebugging = true }, 200, `"PodList"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := base
			tc.change(&c)
			w := httptest.NewRecorder()
			(&Server{config: c, slis: zpages.NewIndicators()}).routes().ServeHTTP(w, httptest.NewRequest("GET", tc.path, nil))
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.body) {
				t.Errorf("got %d %q, want %d with %q", w.Code, w.Body, tc.code, tc.body)
			}
		})
	}
}

// TestIndicators checks that what came of health checks is told, but not of those that are asked for alone, and begins anew.
func TestIndicators(t *testing.T) {
	none := prometheus.NewRegistry()
	host := &fakeHost{}
	h := (&Server{config: Config{Host: host, Metrics: none, Cadvisor: none, ProbeMetrics: none}, slis: zpages.NewIndicators()}).routes()
	ask := func(method, path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Body.String()
	}
	has := func(want ...string) {
		t.Helper()
		text := ask("GET", "/metrics/slis")
		for _, line := range want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("%s is missing in\n%s", line, text)
			}
		}
	}
	ask("GET", "/healthz")
	ask("GET", "/healthz/ping")
	host.sick = errors.New("PLEG is not healthy")
	ask("GET", "/healthz?verbose")
	has(`kubernetes_healthcheck{name="ping",type="healthz"} 1`, `kubernetes_healthcheck{name="syncloop",type="healthz"} 0`,
		`kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2`,
		`kubernetes_healthchecks_total{name="syncloop",status="error",type="healthz"} 1`,
		`kubernetes_healthchecks_total{name="syncloop",status="success",type="healthz"} 1`)
	if got := ask("DELETE", "/metrics/slis"); got != "metrics reset\n" {
		t.Errorf("reset: %q", got)
	}
	if text := ask("GET", "/metrics/slis"); strings.Contains(text, "kubernetes_healthcheck{") {
		t.Errorf("after the reset:\n%s", text)
	}
}
