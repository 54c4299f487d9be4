// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
)

// Metrics count probes, for /metrics/probes. The series of a pod go away with it. It is safe for concurrent use.
type Metrics struct {
	registry metrics.KubeRegistry
	results  *metrics.CounterVec
	duration *metrics.HistogramVec
}

// NewMetrics returns Metrics of no probe.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: metrics.NewKubeRegistry(),
		results: metrics.NewCounterVec(&metrics.CounterOpts{
			Subsystem: "prober", Name: "probe_total", StabilityLevel: metrics.BETA,
			Help: "Cumulative number of a liveness, readiness or startup probe for a container by result.",
		}, []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		duration: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Subsystem: "prober", Name: "probe_duration_seconds", StabilityLevel: metrics.ALPHA,
			Help: "Duration in seconds for a probe response.",
		}, []string{"probe_type", "container", "pod", "namespace"}),
	}
	m.registry.MustRegister(m.results, m.duration)
	return m
}

// Gatherer tells them.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry.Gatherer() }

// count notes an attempt. As upstream it times those that were answered well, and those of which nothing is known.
func (m *Metrics) count(kind Kind, pod *corev1.Pod, name string, out Outcome, took time.Duration) {
	result := "successful"
	switch {
	case out.Err != nil:
		result = "unknown"
	case out.Result == Failure:
		result = "failed"
	}
	m.results.WithLabelValues(string(kind), result, name, pod.Name, pod.Namespace, string(pod.UID)).Inc()
	if result != "failed" {
		m.duration.WithLabelValues(string(kind), name, pod.Name, pod.Namespace).Observe(took.Seconds())
	}
}

// forget drops the series of a pod.
func (m *Metrics) forget(uid types.UID, namespace, name string) {
	m.results.DeletePartialMatch(prometheus.Labels{"pod_uid": string(uid)})
	m.duration.DeletePartialMatch(prometheus.Labels{"pod": name, "namespace": namespace})
}
