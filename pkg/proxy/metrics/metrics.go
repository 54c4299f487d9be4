// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts and times what the proxy does, in the names of upstream's kube-proxy, for its /metrics. Touch it to measure
// another thing.
package metrics

import (
	"net/http"
	"slices"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"
)

const subsystem = "kubeproxy"

// Metrics are those of one proxy. They are safe for concurrent use.
type Metrics struct {
	clock    clock.PassiveClock
	registry metrics.KubeRegistry

	sync, full, partial                           *metrics.HistogramVec
	programming                                   *metrics.Histogram
	last                                          *metrics.Gauge
	serviceChanges, endpointChanges               *metrics.Counter
	iptablesFailures, nftablesFailures            *metrics.Counter
	pendingServiceChanges, pendingEndpointChanges *metrics.Gauge
}

// programmingBuckets are upstream's, in seconds.
var programmingBuckets = slices.Concat(
	metrics.LinearBuckets(0.25, 0.25, 2), metrics.LinearBuckets(1, 1, 59), metrics.LinearBuckets(60, 5, 12), metrics.LinearBuckets(120, 30, 7),
)

// New returns the metrics of a proxy.
func New(c clock.PassiveClock) *Metrics {
	m := &Metrics{clock: c, registry: metrics.NewKubeRegistry()}
	m.sync = m.durations("sync_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds")
	m.full = m.durations("sync_full_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for full resyncs")
	m.partial = m.durations("sync_partial_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for partial resyncs")
	m.programming = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "network_programming_duration_seconds", Help: "In Cluster Network Programming Latency in seconds",
		Buckets: programmingBuckets, StabilityLevel: metrics.ALPHA,
	})
	m.registry.MustRegister(m.programming)
	m.last = m.gauge("sync_proxy_rules_last_timestamp_seconds", "The last time proxy rules were successfully synced")
	m.serviceChanges = m.counter("sync_proxy_rules_service_changes_total", "Cumulative proxy rules Service changes")
	m.endpointChanges = m.counter("sync_proxy_rules_endpoint_changes_total", "Cumulative proxy rules Endpoint changes")
	m.pendingServiceChanges = m.gauge("sync_proxy_rules_service_changes_pending", "Pending proxy rules Service changes")
	m.pendingEndpointChanges = m.gauge("sync_proxy_rules_endpoint_changes_pending", "Pending proxy rules Endpoint changes")
	m.iptablesFailures = m.counter("sync_proxy_rules_iptables_restore_failures_total", "Cumulative proxy iptables restore failures")
	m.nftablesFailures = m.counter("sync_proxy_rules_nftables_sync_failures_total", "Cumulative proxy nftables sync failures")
	return m
}

func (m *Metrics) counter(name, help string) *metrics.Counter {
	c := metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauge(name, help string) *metrics.Gauge {
	g := metrics.NewGauge(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) durations(name, help string) *metrics.HistogramVec {
	h := metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: name, Help: help, Buckets: metrics.ExponentialBuckets(0.001, 2, 15), StabilityLevel: metrics.ALPHA,
	}, []string{"ip_family"})
	m.registry.MustRegister(h)
	return h
}

// ServiceChanged counts an event of a Service that is not in the kernel yet.
func (m *Metrics) ServiceChanged() {
	m.serviceChanges.Inc()
	m.pendingServiceChanges.Inc()
}

// EndpointsChanged counts an event of endpoints that is not in the kernel yet.
func (m *Metrics) EndpointsChanged() {
	m.endpointChanges.Inc()
	m.pendingEndpointChanges.Inc()
}

// Synced observes how long it took to write what had changed in an IP family, or everything.
func (m *Metrics) Synced(family string, everything bool, took time.Duration) {
	m.sync.WithLabelValues(family).Observe(took.Seconds())
	kind := m.partial
	if everything {
		kind = m.full
	}
	kind.WithLabelValues(family).Observe(took.Seconds())
}

// Failed counts that the backend of a mode could not write.
func (m *Metrics) Failed(mode string) {
	if mode == "nftables" {
		m.nftablesFailures.Inc()
		return
	}
	m.iptablesFailures.Inc()
}

// Programmed notes that all is in the kernel now, and how long ago that happened which made it necessary.
func (m *Metrics) Programmed(triggered []time.Time) {
	now := m.clock.Now()
	m.last.Set(float64(now.UnixNano()) / float64(time.Second))
	m.pendingServiceChanges.Set(0)
	m.pendingEndpointChanges.Set(0)
	for _, t := range triggered {
		m.programming.Observe(now.Sub(t).Seconds())
	}
}

// Handler serves them.
func (m *Metrics) Handler() http.Handler {
	return metrics.HandlerFor(m.registry, metrics.HandlerOpts{ErrorHandling: metrics.ContinueOnError})
}
