// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package server is the kubelet's HTTPS API, which the API server uses for logs, exec, attach and port-forward and
// metrics collectors scrape; touch it to add a path or to change who may use one.
package server

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Config is what a Server is made from.
type Config struct {
	// Addr is host:port to listen on; ":10250" if empty. Port 0 takes a free one, see Server.Port.
	Addr string
	// Healthz and ReadOnly are host:port to listen on without TLS, for whoever can reach them: for /healthz alone, and for the pods, their
	// statistics and all metrics besides. Empty: nowhere.
	Healthz, ReadOnly string
	// NetNS is the path of the network namespace to listen in, everywhere. Default "": the process's own.
	NetNS string
	// NodeName is the node whose access rights (nodes/proxy, nodes/log…) are asked for.
	NodeName string
	// Certificate returns the serving certificate for each handshake, so that it can be rotated. Required.
	Certificate func() (*tls.Certificate, error)
	// MinVersion, CipherSuites and Curves are what of TLS is spoken; 1.2 if MinVersion is 0, and what Go prefers if the others are empty.
	MinVersion   uint16
	CipherSuites []uint16
	Curves       []tls.CurveID
	// ClientCAs returns the authorities that verify the client certificates of a request, so that they can be rotated; nil accepts none.
	ClientCAs func() (*x509.CertPool, error)
	// Client asks for TokenReviews and SubjectAccessReviews. Required.
	Client kubernetes.Interface
	// Host does the work. Required.
	Host Host
	// Flags are those of upstream's kubelet that would say what this one was told apart from its settings, served on /flagz.
	Flags map[string]string
	// Metrics is served on /metrics; nil serves those of the Go runtime and the process.
	Metrics prometheus.Gatherer
	// Cadvisor is served on /metrics/cadvisor; nil serves nothing there.
	Cadvisor prometheus.Gatherer
	// ProbeMetrics is served on /metrics/probes; nil serves nothing there.
	ProbeMetrics prometheus.Gatherer
	// LogDir is the directory of the node's logs, served on /logs/; empty refuses that.
	LogDir string
	// NoDebugging refuses the paths that show logs and run commands, and those of LogDir and profiles; NoProfiling only those of
	// profiles.
	NoDebugging, NoProfiling bool
	// Instrument wraps the handler of all requests, also of those that are refused; nil leaves it as it is.
	Instrument func(http.Handler) http.Handler
	// StreamIdleTimeout closes exec, attach and port-forward connections on which nothing happens; 4 hours if 0.
	StreamIdleTimeout time.Duration
	// TTLs are for what the API server says of who asks.
	TTLs TTLs
	// Clock is the real one if nil.
	Clock clock.PassiveClock
}
