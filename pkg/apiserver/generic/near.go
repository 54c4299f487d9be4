// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package generic

import (
	"net"
	"net/http"
	"net/netip"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// plain answers clients on this machine without compression, which nearly all of them ask for: it takes longer than to copy what it
// saves. What is asked of others through the API server is left as it is.
func plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := apirequest.RequestInfoFrom(r.Context())
		if ok && info.IsResourceRequest && info.Subresource != "proxy" && r.Header.Get("Accept-Encoding") != "" && near(r) {
			r = r.WithContext(r.Context())
			r.Header = r.Header.Clone()
			r.Header.Del("Accept-Encoding")
		}
		next.ServeHTTP(w, r)
	})
}

// near tells whether a request comes from this machine: over loopback, or from the address at which it arrives.
func near(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	if from.Addr().Unmap().IsLoopback() {
		return true
	}
	to, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && to.AddrPort().Addr().Unmap() == from.Addr().Unmap()
}
