// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package generic

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

func TestPlain(t *testing.T) {
	list := &apirequest.RequestInfo{IsResourceRequest: true, Verb: "list"}
	for _, c := range []struct {
		name, from string
		info       *apirequest.RequestInfo
		want       string
	}{
		{"over loopback", "127.0.0.1:1000", list, ""},
		{"over loopback, IPv6", "[::1]:1000", list, ""},
		{"from the machine's own address", "10.0.0.1:1000", list, ""},
		{"the same, mapped", "[::ffff:10.0.0.1]:1000", list, ""},
		{"from another machine", "10.0.0.2:1000", list, "gzip"},
		{"from nowhere", "", list, "gzip"},
		{"of a pod, by the proxy", "127.0.0.1:1000", &apirequest.RequestInfo{IsResourceRequest: true, Subresource: "proxy"}, "gzip"},
		{"no resource", "127.0.0.1:1000", &apirequest.RequestInfo{}, "gzip"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := apirequest.WithRequestInfo(t.Context(), c.info)
			ctx = context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6443})
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods", http.NoBody)
			r.RemoteAddr = c.from
			r.Header.Set("Accept-Encoding", "gzip")
			plain(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept-Encoding"); got != c.want {
					t.Errorf("Accept-Encoding is %q, want %q", got, c.want)
				}
			})).ServeHTTP(httptest.NewRecorder(), r)
			if got := r.Header.Get("Accept-Encoding"); got != "gzip" {
				t.Errorf("the caller's request was changed: Accept-Encoding is %q", got)
			}
		})
	}
}
