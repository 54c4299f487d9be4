// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
			(&Server{config: c}).routes().ServeHTTP(w, httptest.NewRequest("GET", tc.path, nil))
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.body) {
				t.Errorf("got %d %q, want %d with %q", w.Code, w.Body, tc.code, tc.body)
			}
		})
	}
}
