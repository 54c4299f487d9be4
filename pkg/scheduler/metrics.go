// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// MetricsPath is where the API server serves Metrics. Upstream's kube-scheduler has a port of its own for them, which several clusters
// on one machine could not share. Who may get the path is told by RBAC.
const MetricsPath = "/metrics/scheduler"

// Metrics serves what a scheduler has registered by Config.Registerer.
func Metrics(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}

// metrics has upstream's names and labels. The zero value of a nil pointer
// observes nothing.
type metrics struct {
	attempts  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	algorithm prometheus.Histogram
	tries     prometheus.Histogram
	latency   *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, s *Scheduler) (*metrics, error) {
	if r == nil {
		return nil, nil
	}
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total",
			Help: "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
		}, []string{"result", "profile"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scheduler_scheduling_attempt_duration_seconds",
			Help:    "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"result", "profile"}),
		algorithm: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scheduler_scheduling_algorithm_duration_seconds",
			Help:    "Scheduling algorithm latency in seconds",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}),
		tries: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scheduler_pod_scheduling_attempts",
			Help:    "Number of attempts to successfully schedule a pod.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 5),
		}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scheduler_pod_scheduling_sli_duration_seconds",
			Help:    "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
		}, []string{"attempts"}),
	}
	all := []prometheus.Collector{m.attempts, m.duration, m.algorithm, m.tries, m.latency}
	gauge := func(name, help, label, value string, f func() float64) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: value}}, f))
	}
	for _, name := range []string{"active", "backoff", "unschedulable", "gated"} {
		gauge("scheduler_pending_pods", "Number of pending pods, by the queue type.", "queue", name, func() float64 { return float64(s.queue.Pending()[name]) })
	}
	for i, name := range []string{"nodes", "pods", "assumed_pods"} {
		gauge("scheduler_cache_size", "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.", "type", name, func() float64 {
			nodes, pods, assumed := s.cache.Counts()
			return float64([]int{nodes, pods, assumed}[i])
		})
	}
	gauge("scheduler_goroutines", "Number of running goroutines split by the work they do such as binding.", "operation", "binding", func() float64 { return float64(len(s.slots)) })
	var errs []error
	for _, c := range all {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// placed observes the end of the scheduling algorithm.
func (m *metrics) placed(a *attempt, now time.Time) {
	if m != nil {
		m.algorithm.Observe(now.Sub(a.start).Seconds())
	}
}

// failed observes an attempt that did not place its pod.
func (m *metrics) failed(a *attempt, result string, now time.Time) {
	if m != nil {
		m.attempt(a, result, now)
	}
}

// bound observes an attempt that bound its pod.
func (m *metrics) bound(a *attempt, now time.Time) {
	if m == nil {
		return
	}
	m.attempt(a, "scheduled", now)
	m.tries.Observe(float64(a.pod.Attempts))
	attempts := "1"
	switch {
	case a.pod.Attempts >= 16:
		attempts = "16+"
	case a.pod.Attempts >= 8:
		attempts = "8"
	case a.pod.Attempts >= 4:
		attempts = "4"
	case a.pod.Attempts >= 2:
		attempts = "2"
	}
	if initial := a.pod.GetInitialAttemptTimestamp(); initial != nil {
		m.latency.WithLabelValues(attempts).Observe(now.Sub(*initial).Seconds())
	}
}

func (m *metrics) attempt(a *attempt, result string, now time.Time) {
	m.attempts.WithLabelValues(result, a.profile.Name()).Inc()
	m.duration.WithLabelValues(result, a.profile.Name()).Observe(now.Sub(a.start).Seconds())
}
