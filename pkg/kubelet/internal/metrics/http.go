// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Requests returns next with its requests counted and timed.
func (m *Metrics) Requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if !slices.Contains([]string{"OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"}, method) {
			method = "other"
		}
		path, long := pathLabel(r.URL.Path)
		labels := []string{method, path, "readwrite", strconv.FormatBool(long)}
		m.requests.WithLabelValues(labels...).Inc()
		m.inflight.WithLabelValues(labels...).Inc()
		defer m.inflight.WithLabelValues(labels...).Dec()
		began := m.clock.Now()
		defer func() { m.requestDuration.WithLabelValues(labels...).Observe(m.clock.Since(began).Seconds()) }()
		next.ServeHTTP(w, r)
	})
}

// known are the paths that are told; there must be no more series than these for strangers to make.
var known = []string{
	"healthz", "pods", "stats", "metrics", "metrics/cadvisor", "metrics/probes", "metrics/resource", "checkpoint", "run", "exec", "attach",
	"portForward", "containerLogs", "configz", "flagz", "statusz", "runningpods", "logs", "debug",
}

// pathLabel is the first part of a path, of metrics the first two.
func pathLabel(path string) (label string, long bool) {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	label = parts[0]
	if label == "metrics" && len(parts) > 1 {
		label += "/" + parts[1]
	}
	if !slices.Contains(known, label) {
		return "other", false
	}
	return label, slices.Contains([]string{"exec", "attach", "portForward", "debug"}, label)
}
