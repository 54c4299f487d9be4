// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"

	"minik8s.io/minik8s/pkg/zpages"
)

// component is what the kubelet calls itself.
const component = "kubelet"

// flagz tells what upstream's kubelet is told by flags and not by settings.
func (s *Server) flagz(w http.ResponseWriter, r *http.Request) {
	zpages.Flagz(component, s.config.Flags).ServeHTTP(w, r)
}

// statusz tells which kubelet this is and for how long it has run.
func (s *Server) statusz(w http.ResponseWriter, r *http.Request) {
	zpages.Statusz(component, s.config.Clock, "/configz", "/debug", "/flagz", "/healthz", "/metrics").ServeHTTP(w, r)
}
