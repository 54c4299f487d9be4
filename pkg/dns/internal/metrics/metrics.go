// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts what cluster DNS does, under CoreDNS's names. Touch it to count something more.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Set are the metrics of one cluster. It is safe for concurrent use.
type Set struct {
	registry *prometheus.Registry

	Panics     prometheus.Counter
	Requests   *prometheus.CounterVec
	Responses  *prometheus.CounterVec
	Duration   *prometheus.HistogramVec
	Response   *prometheus.HistogramVec
	Plugins    *prometheus.GaugeVec
	Hosts      prometheus.Gauge
	ReloadFail prometheus.Counter

	CacheRequests *prometheus.CounterVec
	CacheHits     *prometheus.CounterVec
	CacheMisses   *prometheus.CounterVec
	CacheStale    *prometheus.CounterVec
	CachePrefetch *prometheus.CounterVec
	CacheEvicted  *prometheus.CounterVec
	CacheEntries  *prometheus.GaugeVec

	ForwardRejects  prometheus.Counter
	ForwardBroken   prometheus.Counter
	ProxyDuration   *prometheus.HistogramVec
	ProxyUnhealthy  *prometheus.CounterVec
	RefusedRequests prometheus.Counter
	Connections     prometheus.Gauge
}

// New returns a set of zeros.
func New() *Set {
	const coredns, dns, cache, forward, proxy = "coredns", "dns", "cache", "forward", "proxy"
	counter := func(subsystem, name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: coredns, Subsystem: subsystem, Name: name, Help: help})
	}
	counters := func(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: coredns, Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	gauge := func(subsystem, name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: coredns, Subsystem: subsystem, Name: name, Help: help})
	}
	gauges := func(subsystem, name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: coredns, Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	histograms := func(subsystem, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: coredns, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
	}
	seconds := prometheus.ExponentialBuckets(0.00025, 2, 16)
	s := &Set{
		registry:   prometheus.NewRegistry(),
		Panics:     counter("", "panics_total", "Questions that ended in a panic."),
		Requests:   counters(dns, "requests_total", "Questions, by zone of the server block, protocol, address family and type.", "server", "zone", "view", "proto", "family", "type"),
		Responses:  counters(dns, "responses_total", "Answers, by zone of the server block, code and plugin.", "server", "zone", "view", "rcode", "plugin"),
		Duration:   histograms(dns, "request_duration_seconds", "Time that each answer took.", seconds, "server", "zone", "view"),
		Response:   histograms(dns, "response_size_bytes", "Size of answers.", []float64{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3}, "server", "zone", "view", "proto"),
		Plugins:    gauges("", "plugin_enabled", "Whether a plugin is in a server block.", "server", "zone", "view", "name"),
		Hosts:      gauge("hosts", "entries", "Entries of hosts in the Corefile."),
		ReloadFail: counter("reload", "failed_total", "Changed Corefiles that were not taken."),

		CacheRequests: counters(cache, "requests_total", "Look-ups.", "server", "zones", "view"),
		CacheHits:     counters(cache, "hits_total", "Answers from the cache.", "server", "type", "zones", "view"),
		CacheMisses:   counters(cache, "misses_total", "Look-ups without an answer.", "server", "zones", "view"),
		CacheStale:    counters(cache, "served_stale_total", "Answers from the cache after their end.", "server", "zones", "view"),
		CachePrefetch: counters(cache, "prefetch_total", "Answers that were had anew before their end.", "server", "zones", "view"),
		CacheEvicted:  counters(cache, "evictions_total", "Answers dropped for want of room.", "server", "type", "zones", "view"),
		CacheEntries:  gauges(cache, "entries", "Answers in the cache.", "server", "type", "zones", "view"),

		ForwardRejects: counter(forward, "max_concurrent_rejects_total", "Questions that were not forwarded, since too many were."),
		ForwardBroken:  counter(forward, "healthcheck_broken_total", "Questions for which no server was well."),
		ProxyDuration:  histograms(proxy, "request_duration_seconds", "Time that other servers took.", seconds, "proxy_name", "to", "rcode"),
		ProxyUnhealthy: counters(proxy, "healthcheck_failures_total", "Checks that found a server not well.", "proxy_name", "to"),

		RefusedRequests: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "minik8s", Subsystem: dns, Name: "refused_clients_total", Help: "Questions and connections of who may not ask."}),
		Connections:     prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "minik8s", Subsystem: dns, Name: "tcp_connections", Help: "TCP connections that are open."}),
	}
	s.registry.MustRegister(s.Panics, s.Requests, s.Responses, s.Duration, s.Response, s.Plugins, s.Hosts, s.ReloadFail,
		s.CacheRequests, s.CacheHits, s.CacheMisses, s.CacheStale, s.CachePrefetch, s.CacheEvicted, s.CacheEntries,
		s.ForwardRejects, s.ForwardBroken, s.ProxyDuration, s.ProxyUnhealthy, s.RefusedRequests, s.Connections)
	return s
}

// Server is the label of all server blocks: all are served at one port.
const Server = "dns://:53"

// Handler serves the metrics to Prometheus.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}
