// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package zpages

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"
)

func ask(h http.Handler, method, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestStatusz(t *testing.T) {
	t.Parallel()
	started, err := metrics.GetProcessStart()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(int64(started), 0).Add(26*time.Hour + 5*time.Minute + 9*time.Second)
	h := Statusz("kube-that", clocktesting.NewFakePassiveClock(now), "/a", "/b")
	const object = ";v=v1beta1;g=config.k8s.io;as=Statusz"
	for _, tc := range []struct {
		accept, contentType string
		code                int
		body                string // part of it
	}{
		{"", "text/plain", 200, "\nkube-that statusz\n"},
		{"*/*", "text/plain", 200, "\nPaths: /a /b\n"},
		{"text/*", "text/plain", 200, "\nBinary version: "},
		{"application/vnd.kubernetes.protobuf, text/plain", "text/plain", 200, "\nUp: 26 hr 05 min 09 sec\n"},
		{"application/json" + object, "application/json", 200, `{"kind":"Statusz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kube-that"`},
		{"application/json" + object, "application/json", 200, `"uptimeSeconds":93909,`},
		{"application/json" + object, "application/json", 200, `"paths":["/a","/b"]`},
		{"application/yaml" + object, "application/yaml", 200, "\nkind: Statusz\n"},
		{strings.Replace("application/json"+object, "v1beta1", "v1alpha1", 1), "application/json", 200, `"apiVersion":"config.k8s.io/v1alpha1"`},
		{"application/json", "text/plain", 406, "media types are accepted"},
		{strings.Replace("application/json"+object, "v1beta1", "v1", 1), "text/plain", 406, "media types are accepted"},
		{"text/plain" + object, "text/plain", 406, "media types are accepted"},
	} {
		w := ask(h, "GET", tc.accept)
		kind := w.Header().Get("Content-Type")
		if w.Code != tc.code || !strings.HasPrefix(kind, tc.contentType) || !strings.Contains(w.Body.String(), tc.body) {
			t.Errorf("%s: got %d %s %q, want %d %s with %q", tc.accept, w.Code, kind, w.Body, tc.code, tc.contentType, tc.body)
		}
		if old := strings.Contains(tc.accept, "v1alpha1"); old != (w.Header().Get("Warning") != "") {
			t.Errorf("%s: warning %q", tc.accept, w.Header().Get("Warning"))
		}
	}
}

func TestFlagz(t *testing.T) {
	t.Parallel()
	h := Flagz("kube-that", map[string]string{"node-ip": "192.0.2.1", "hostname-override": "n"})
	const object = ";v=v1beta1;g=config.k8s.io;as="
	for _, tc := range []struct {
		accept string
		code   int
		body   string // part of it
	}{
		{"", 200, "\nkube-that flagz\n"},
		{"text/plain", 200, "\nhostname-override=n\nnode-ip=192.0.2.1\n"},
		{"application/json" + object + "Flagz", 200,
			`{"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"kube-that"},"flags":{"hostname-override":"n","node-ip":"192.0.2.1"}}`},
		{"application/json" + object + "Statusz", 406, "as=Flagz"},
	} {
		if w := ask(h, "GET", tc.accept); w.Code != tc.code || !strings.Contains(w.Body.String(), tc.body) {
			t.Errorf("%s: got %d %q, want %d with %q", tc.accept, w.Code, w.Body, tc.code, tc.body)
		}
	}
}

// TestIndicators: what came of checks is told with upstream's help, of one component and not of another in the process, and begins anew.
func TestIndicators(t *testing.T) {
	t.Parallel()
	i, other := NewIndicators(), NewIndicators()
	i.Observe("ping", nil)
	i.Observe("ping", nil)
	i.Observe("log", nil)
	i.Observe("log", errors.New("logging blocked"))
	text := ask(i.Handler(), "GET", "").Body.String()
	for _, want := range []string{
		"# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.",
		"# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.",
		`kubernetes_healthcheck{name="ping",type="healthz"} 1`, `kubernetes_healthcheck{name="log",type="healthz"} 0`,
		`kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 2`,
		`kubernetes_healthchecks_total{name="log",status="error",type="healthz"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	if text := ask(other.Handler(), "GET", "").Body.String(); strings.Contains(text, "kubernetes_healthcheck") {
		t.Errorf("of another component:\n%s", text)
	}
	if got := ask(i.Handler(), "DELETE", "").Body.String(); got != "metrics reset\n" {
		t.Errorf("reset: %q", got)
	}
	if text := ask(i.Handler(), "GET", "").Body.String(); strings.Contains(text, "kubernetes_healthcheck{") {
		t.Errorf("after the reset:\n%s", text)
	}
}

// TestProcess: the process's own are there, and nothing of another component in it.
func TestProcess(t *testing.T) {
	t.Parallel()
	text := ask(promhttp.HandlerFor(Process(), promhttp.HandlerOpts{}), "GET", "").Body.String()
	for _, want := range []string{"process_start_time_seconds", "go_goroutines", "kubernetes_build_info{"} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%s is missing", want)
		}
	}
	for name, want := range map[string]bool{"rest_client_requests_total": true, "apiserver_request_total": false, "etcd_requests_total": false, "go_threads": true} {
		if got := ofAnyComponent(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
