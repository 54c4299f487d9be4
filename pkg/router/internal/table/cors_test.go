// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package table

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCORS_Apply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		cors      CORS
		origin    string
		preflight bool
		want      http.Header
	}{
		{
			"all", CORS{Origins: []string{"*"}, Methods: []string{"*"}, Headers: []string{"*"}, Expose: []string{"*"}, MaxAge: 5}, "http://x.com", true,
			http.Header{
				"Access-Control-Allow-Origin": {"*"}, "Access-Control-Allow-Methods": {"*"}, "Access-Control-Allow-Headers": {"*"},
				"Access-Control-Expose-Headers": {"*"}, "Access-Control-Max-Age": {"5"},
			},
		},
		{
			"all, with credentials", CORS{Origins: []string{"*"}, Methods: []string{"*"}, Headers: []string{"*"}, Expose: []string{"*"}, Credentials: true}, "http://x.com", true,
			http.Header{
				"Access-Control-Allow-Origin": {"http://x.com"}, "Access-Control-Allow-Credentials": {"true"}, "Vary": {"Origin"},
				"Access-Control-Allow-Methods": {"PUT"}, "Access-Control-Allow-Headers": {"x-a, x-b"},
			},
		},
		{
			"some", CORS{Origins: []string{"https://x.com"}, Methods: []string{"GET", "PUT"}, Headers: []string{"x-a"}, Expose: []string{"x-c", "x-d"}}, "https://x.com", true,
			http.Header{
				"Access-Control-Allow-Origin": {"https://x.com"}, "Vary": {"Origin"},
				"Access-Control-Allow-Methods": {"GET, PUT"}, "Access-Control-Allow-Headers": {"x-a"}, "Access-Control-Expose-Headers": {"x-c, x-d"},
			},
		},
		{
			"no preflight", CORS{Origins: []string{"https://x.com"}, Methods: []string{"GET"}, Headers: []string{"x-a"}, MaxAge: 5}, "https://x.com", false,
			http.Header{"Access-Control-Allow-Origin": {"https://x.com"}, "Vary": {"Origin"}},
		},
		{"another origin", CORS{Origins: []string{"https://x.com"}, Methods: []string{"GET"}}, "https://y.com", true, http.Header{}},
		{"no origin", CORS{Origins: []string{"*"}}, "", false, http.Header{"Access-Control-Allow-Origin": {"backend"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodOptions, "/", nil)
			r.Header = http.Header{"Access-Control-Request-Method": {"PUT"}, "Access-Control-Request-Headers": {"x-a, x-b"}}
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			got := http.Header{"Access-Control-Allow-Origin": {"backend"}}
			tt.cors.Apply(got, r, tt.preflight)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestOriginFits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, origin string
		want            bool
	}{
		{"*", "https://x.com", true},
		{"https://x.com", "https://X.com", true},
		{"https://x.com", "http://x.com", false},
		{"https://x.com", "https://x.com:8443", false},
		{"https://x.com:443", "https://x.com", true},
		{"http://x.com", "http://x.com:80", true},
		{"http://x.com", "http://x.com:443", false},
		{"https://*.x.com", "https://a.b.x.com", true},
		{"https://*.x.com:443", "https://a.x.com", true},
		{"https://*.x.com", "https://x.com", false},
		{"https://*.x.com", "https://a.x.com:8443", false},
		{"https://*", "https://a.x.com", true},
		{"https://*", "http://a.x.com", false},
		{"https://*.x.com", "https://ax.com", false},
	} {
		if got := originFits(tt.pattern, tt.origin); got != tt.want {
			t.Errorf("%s and %s: %t", tt.pattern, tt.origin, got)
		}
	}
}
