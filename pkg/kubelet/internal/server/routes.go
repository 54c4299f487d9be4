// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// routes are all paths, for those who may use them.
func (s *Server) routes() http.Handler {
	mux := s.readOnly()
	mux.HandleFunc("POST /checkpoint/{namespace}/{pod}/{container}", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "checkpointing of containers is not supported", http.StatusNotImplemented)
	})
	if s.config.NoDebugging {
		for _, path := range []string{"run", "exec", "attach", "portForward", "containerLogs", "runningpods", "debug/pprof", "logs"} {
			mux.HandleFunc("/"+path+"/", refused("Debug endpoints are disabled."))
		}
		return mux
	}
	s.debugging(mux)
	return mux
}

// health is how the kubelet is, and no more.
func (s *Server) health() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /healthz/{check}", s.healthz)
	return mux
}

// readOnly are the paths that upstream's kubelet serves on its read-only port, too.
func (s *Server) readOnly() *http.ServeMux {
	mux := s.health()
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /pods/{$}", s.pods)
	mux.HandleFunc("GET /stats/summary", s.summary)
	mux.HandleFunc("GET /stats/summary/{$}", s.summary)
	mux.Handle("GET /metrics", gathered(s.config.Metrics))
	mux.Handle("GET /metrics/cadvisor", gathered(s.config.Cadvisor))
	mux.Handle("GET /metrics/probes", gathered(s.config.ProbeMetrics))
	mux.HandleFunc("GET /metrics/resource", s.resourceMetrics)
	mux.Handle("/metrics/slis", s.slis.Handler())
	return mux
}

// debugging adds what upstream's kubelet calls so, and serves unless it is told not to.
func (s *Server) debugging(mux *http.ServeMux) {
	mux.HandleFunc("GET /runningpods", s.runningPods)
	mux.HandleFunc("GET /runningpods/{$}", s.runningPods)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.logs)
	mux.HandleFunc("GET /configz", s.configz)
	mux.HandleFunc("GET /flagz", s.flagz)
	mux.HandleFunc("GET /statusz", s.statusz)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, uid := range []string{"", "/{uid}"} {
			mux.HandleFunc(method+" /exec/{namespace}/{pod}"+uid+"/{container}", s.exec)
			mux.HandleFunc(method+" /attach/{namespace}/{pod}"+uid+"/{container}", s.attach)
			mux.HandleFunc(method+" /portForward/{namespace}/{pod}"+uid, s.portForward)
		}
	}
	mux.HandleFunc("POST /run/{namespace}/{pod}/{container}", s.run)
	mux.HandleFunc("POST /run/{namespace}/{pod}/{uid}/{container}", s.run)
	if s.config.LogDir == "" {
		mux.HandleFunc("/logs/", refused("logs endpoint is disabled."))
	} else {
		mux.HandleFunc("GET /logs/", s.systemLogs)
	}
	if s.config.NoProfiling {
		mux.HandleFunc("/debug/pprof/", refused("profiling endpoint is disabled."))
	} else {
		mux.HandleFunc("GET /debug/pprof/", profile)
	}
	mux.HandleFunc("/debug/flags/v", refused("flags endpoint is disabled."))
}

// refused answers what a setting has switched off.
func refused(message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, message, http.StatusMethodNotAllowed) }
}

// gathered serves metrics. One that cannot be had does not keep the others back, as upstream.
func gathered(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// checks are the parts of /healthz by name, in the order in which they are told.
var checks = []string{"ping", "log", "syncloop"}

// healthz answers as k8s.io/apiserver does: of all checks together, or of the one that the path names.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	one := r.PathValue("check")
	found := false
	for _, c := range checks {
		found = found || c == one
	}
	if one != "" && !found {
		http.NotFound(w, r)
		return
	}
	_, verbose := r.URL.Query()["verbose"]
	var report strings.Builder
	failed := false
	for _, c := range checks {
		if one != "" && c != one {
			continue
		}
		var err error
		if c == "syncloop" {
			err = s.config.Host.Healthy()
		}
		if one == "" { // as upstream
			s.slis.Observe(c, err)
		}
		if err == nil {
			fmt.Fprintf(&report, "[+]%s ok\n", c)
			continue
		}
		failed = true
		fmt.Fprintf(&report, "[-]%s failed: %v\n", c, err)
		if one != "" {
			http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case failed:
		http.Error(w, report.String()+"healthz check failed", http.StatusInternalServerError)
	case verbose && one == "":
		fmt.Fprintf(w, "%shealthz check passed\n", report.String())
	default:
		fmt.Fprint(w, "ok")
	}
}

// systemLogs serves the files of the node's log directory. Nothing outside it can be reached by a path, but by links in it, as
// upstream.
func (s *Server) systemLogs(w http.ResponseWriter, r *http.Request) {
	if len(r.URL.Query()["query"]) > 0 {
		http.Error(w, "querying the logs of services is not supported", http.StatusNotImplemented)
		return
	}
	http.StripPrefix("/logs/", http.FileServer(http.Dir(s.config.LogDir))).ServeHTTP(w, r)
}

// profile serves the profiles of the process.
func profile(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "cmdline":
		pprof.Cmdline(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}
