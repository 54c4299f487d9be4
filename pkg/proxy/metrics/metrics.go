// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts and times what the proxy does, in the names of upstream's kube-proxy, for its /metrics. Touch it to measure
// another thing.
package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/zpages"
)

const subsystem = "kubeproxy"

// familyLabel is that of what is measured for each IP family.
const familyLabel = "ip_family"

// Metrics are those of one proxy. They are safe for concurrent use.
type Metrics struct {
	clock    clock.PassiveClock
	registry metrics.KubeRegistry

	sync, full, partial, programming, flows       *metrics.HistogramVec
	last, queued, noLocal                         *metrics.GaugeVec
	rules, rulesWritten                           *metrics.GaugeVec // of the mode iptables, as partialFailures
	failures, partialFailures, flowsDeleted       *metrics.CounterVec
	checks                                        map[string]*metrics.CounterVec // by path
	serviceChanges, endpointChanges               *metrics.Counter
	pendingServiceChanges, pendingEndpointChanges *metrics.Gauge
}

// syncBuckets and programmingBuckets are upstream's, in seconds.
var (
	syncBuckets        = metrics.ExponentialBuckets(0.001, 2, 15)
	programmingBuckets = slices.Concat(
		metrics.LinearBuckets(0.25, 0.25, 2), metrics.LinearBuckets(1, 1, 59), metrics.LinearBuckets(60, 5, 12), metrics.LinearBuckets(120, 30, 7),
	)
)

// New returns the metrics of a proxy of a mode, which decides on what a failure is called.
func New(c clock.PassiveClock, mode string) *Metrics {
	m := &Metrics{clock: c, registry: metrics.NewKubeRegistry()}
	m.sync = m.durations("sync_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds", syncBuckets)
	m.full = m.durations("sync_full_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for full resyncs", syncBuckets)
	m.partial = m.durations("sync_partial_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for partial resyncs", syncBuckets)
	m.programming = m.durations("network_programming_duration_seconds", "In Cluster Network Programming Latency in seconds", programmingBuckets)
	m.flows = m.durations("conntrack_reconciler_sync_duration_seconds", "ReconcileConntrackFlowsLatency latency in seconds", syncBuckets)
	m.flowsDeleted = m.counters("conntrack_reconciler_deleted_entries_total", "Cumulative conntrack flows deleted by conntrack reconciler", familyLabel)
	m.last = m.gauges("sync_proxy_rules_last_timestamp_seconds", "The last time proxy rules were successfully synced", familyLabel)
	m.queued = m.gauges("sync_proxy_rules_last_queued_timestamp_seconds", "The last time a sync of proxy rules was queued", familyLabel)
	m.noLocal = m.gauges("sync_proxy_rules_no_local_endpoints_total", "Number of services with a Local traffic policy and no endpoints",
		"traffic_policy", familyLabel)
	m.serviceChanges = m.counter("sync_proxy_rules_service_changes_total", "Cumulative proxy rules Service changes")
	m.endpointChanges = m.counter("sync_proxy_rules_endpoint_changes_total", "Cumulative proxy rules Endpoint changes")
	m.pendingServiceChanges = m.gauge("sync_proxy_rules_service_changes_pending", "Pending proxy rules Service changes")
	m.pendingEndpointChanges = m.gauge("sync_proxy_rules_endpoint_changes_pending", "Pending proxy rules Endpoint changes")
	if mode == "nftables" {
		m.failures = m.counters("sync_proxy_rules_nftables_sync_failures_total", "Cumulative proxy nftables sync failures", familyLabel)
	} else {
		m.failures = m.counters("sync_proxy_rules_iptables_restore_failures_total", "Cumulative proxy iptables restore failures", familyLabel)
		m.partialFailures = m.counters("sync_proxy_rules_iptables_partial_restore_failures_total",
			"Cumulative proxy iptables partial restore failures", familyLabel)
		m.rules = m.gauges("sync_proxy_rules_iptables_total", "Total number of iptables rules owned by kube-proxy", "table", familyLabel)
		m.rulesWritten = m.gauges("sync_proxy_rules_iptables_last", "Number of iptables rules written by kube-proxy in last sync", "table", familyLabel)
	}
	m.checks = map[string]*metrics.CounterVec{
		"/healthz": m.counters("proxy_healthz_total", "Cumulative proxy healthz HTTP status", "code"),
		"/livez":   m.counters("proxy_livez_total", "Cumulative proxy livez HTTP status", "code"),
	}
	return m
}

func (m *Metrics) counter(name, help string) *metrics.Counter {
	c := metrics.NewCounter(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name, help string, labels ...string) *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauge(name, help string) *metrics.Gauge {
	g := metrics.NewGauge(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA})
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) gauges(name, help string, labels ...string) *metrics.GaugeVec {
	g := metrics.NewGaugeVec(&metrics.GaugeOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) durations(name, help string, buckets []float64) *metrics.HistogramVec {
	h := metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA,
	}, []string{familyLabel})
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

// Queued notes that the rules of an IP family are to be written.
func (m *Metrics) Queued(family string) { m.queued.WithLabelValues(family).Set(m.now()) }

// Synced observes how long it took to write what had changed in an IP family, or everything.
func (m *Metrics) Synced(family string, everything bool, took time.Duration) {
	m.sync.WithLabelValues(family).Observe(took.Seconds())
	kind := m.partial
	if everything {
		kind = m.full
	}
	kind.WithLabelValues(family).Observe(took.Seconds())
}

// Failed counts that what had changed in an IP family, or everything, could not be written.
func (m *Metrics) Failed(family string, everything bool) {
	m.failures.WithLabelValues(family).Inc()
	if m.partialFailures != nil && !everything {
		m.partialFailures.WithLabelValues(family).Inc()
	}
}

// Rules tells how many rules an IP family has in a table of iptables, and how many of these were written the last time.
func (m *Metrics) Rules(family, table string, all, written int) {
	if m.rules == nil {
		return
	}
	m.rules.WithLabelValues(table, family).Set(float64(all))
	m.rulesWritten.WithLabelValues(table, family).Set(float64(written))
}

// Programmed notes that an IP family has all in the kernel now, and how long ago that happened which made it necessary.
func (m *Metrics) Programmed(family string, triggered []time.Time) {
	m.last.WithLabelValues(family).Set(m.now())
	for _, t := range triggered {
		m.programming.WithLabelValues(family).Observe(m.clock.Now().Sub(t).Seconds())
	}
}

// NoLocal tells of how many ports a traffic policy "Local" finds no endpoint on this node, although there are some elsewhere.
func (m *Metrics) NoLocal(family string, internal, external int) {
	m.noLocal.WithLabelValues("internal", family).Set(float64(internal))
	m.noLocal.WithLabelValues("external", family).Set(float64(external))
}

// Settled notes that no event waits for its way into the kernel.
func (m *Metrics) Settled() {
	m.pendingServiceChanges.Set(0)
	m.pendingEndpointChanges.Set(0)
}

// Forgot counts flows of an IP family that were deleted, and observes how long it took to find them.
func (m *Metrics) Forgot(family string, flows uint, took time.Duration) {
	m.flows.WithLabelValues(family).Observe(took.Seconds())
	m.flowsDeleted.WithLabelValues(family).Add(float64(flows))
}

// Checked counts an answer about the proxy's own health.
func (m *Metrics) Checked(path string, code int) {
	m.checks[path].WithLabelValues(strconv.Itoa(code)).Inc()
}

func (m *Metrics) now() float64 { return float64(m.clock.Now().UnixNano()) / float64(time.Second) }

// Handler serves them, and those of the process that any component tells. One that cannot be had does not keep the others back.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{m.registry.Gatherer(), zpages.Process()}, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}
