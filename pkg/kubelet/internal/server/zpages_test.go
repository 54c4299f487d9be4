// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/zpages"
)

// TestZpages: the kubelet tells of itself by its name, its paths and its flags.
func TestZpages(t *testing.T) {
	t.Parallel()
	none := prometheus.NewRegistry()
	c := Config{Host: &fakeHost{}, Metrics: none, Cadvisor: none, ProbeMetrics: none, Clock: clock.RealClock{}, Flags: map[string]string{"node-ip": "192.0.2.1", "hostname-override": "n"}}
	h := (&Server{config: c, slis: zpages.NewIndicators()}).routes()
	const object = "application/json;v=v1beta1;g=config.k8s.io;as="
	for _, tc := range []struct {
		path, accept string
		code         int
		body         string // part of it
	}{
		{"/statusz", "", 200, "\nkubelet statusz\n"},
		{"/statusz", "", 200, "\nPaths: /configz /debug /flagz /healthz /metrics\n"},
		{"/statusz", object + "Statusz", 200, `{"kind":"Statusz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kubelet"}`},
		{"/statusz", object + "Flagz", 406, "as=Statusz"},
		{"/flagz", "", 200, "\nkubelet flagz\n"},
		{"/flagz", "", 200, "\nhostname-override=n\nnode-ip=192.0.2.1\n"},
		{"/flagz", object + "Flagz", 200, `"metadata":{"name":"kubelet"},"flags":{"hostname-override":"n","node-ip":"192.0.2.1"}}`},
	} {
		r := httptest.NewRequest("GET", tc.path, nil)
		r.Header.Set("Accept", tc.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.body) {
			t.Errorf("%s as %q: got %d %q, want %d with %q", tc.path, tc.accept, w.Code, w.Body, tc.code, tc.body)
		}
	}
}
