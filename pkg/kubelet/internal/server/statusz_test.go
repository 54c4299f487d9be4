// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

func TestStatusz(t *testing.T) {
	t.Parallel()
	none := prometheus.NewRegistry()
	h := (&Server{config: Config{Host: &fakeHost{}, Metrics: none, Cadvisor: none, ProbeMetrics: none, Clock: clock.RealClock{}}, slis: newIndicators()}).routes()
	const object = ";v=v1beta1;g=config.k8s.io;as=Statusz"
	for _, tc := range []struct {
		accept, contentType string
		code                int
		body                string // part of it
	}{
		{"", "text/plain", 200, "\nkubelet statusz\n"},
		{"*/*", "text/plain", 200, "\nPaths: /configz /debug /flagz /healthz /metrics\n"},
		{"text/*", "text/plain", 200, "\nBinary version: "},
		{"application/vnd.kubernetes.protobuf, text/plain", "text/plain", 200, "\nUp: 0 hr "},
		{"application/json" + object, "application/json", 200, `{"kind":"Statusz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kubelet"`},
		{"application/yaml" + object, "application/yaml", 200, "\nkind: Statusz\n"},
		{strings.Replace("application/json"+object, "v1beta1", "v1alpha1", 1), "application/json", 200, `"apiVersion":"config.k8s.io/v1alpha1"`},
		{"application/json", "text/plain", 406, "media types are accepted"},
		{strings.Replace("application/json"+object, "v1beta1", "v1", 1), "text/plain", 406, "media types are accepted"},
		{"text/plain" + object, "text/plain", 406, "media types are accepted"},
	} {
		t.Run(tc.accept, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest("GET", "/statusz", nil)
			r.Header.Set("Accept", tc.accept)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			kind := w.Header().Get("Content-Type")
			if w.Code != tc.code || !strings.HasPrefix(kind, tc.contentType) || !strings.Contains(w.Body.String(), tc.body) {
				t.Errorf("got %d %s %q, want %d %s with %q", w.Code, kind, w.Body, tc.code, tc.contentType, tc.body)
			}
			if old := strings.Contains(tc.accept, "v1alpha1"); old != (w.Header().Get("Warning") != "") {
				t.Errorf("warning %q", w.Header().Get("Warning"))
			}
		})
	}
}

func TestFlagz(t *testing.T) {
	t.Parallel()
	none := prometheus.NewRegistry()
	c := Config{Host: &fakeHost{}, Metrics: none, Cadvisor: none, ProbeMetrics: none, Clock: clock.RealClock{}, Flags: map[string]string{"node-ip": "192.0.2.1", "hostname-override": "n"}}
	h := (&Server{config: c, slis: newIndicators()}).routes()
	const object = ";v=v1beta1;g=config.k8s.io;as="
	for _, tc := range []struct {
		accept string
		code   int
		body   string // part of it
	}{
		{"", 200, "\nkubelet flagz\n"},
		{"text/plain", 200, "\nhostname-override=n\nnode-ip=192.0.2.1\n"},
		{"application/json" + object + "Flagz", 200, `{"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kubelet"},"flags":{"hostname-override":"n","node-ip":"192.0.2.1"}}`},
		{"application/json" + object + "Statusz", 406, "as=Flagz"},
	} {
		r := httptest.NewRequest("GET", "/flagz", nil)
		r.Header.Set("Accept", tc.accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.body) {
			t.Errorf("%s: got %d %q, want %d with %q", tc.accept, w.Code, w.Body, tc.code, tc.body)
		}
	}
}
