// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"
)

// The metrics of /metrics/resource, which metrics-server reads (KEP-727).
var (
	nodeCPU = prometheus.NewDesc("node_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the node in core-seconds", nil, nil)
	nodeMemory = prometheus.NewDesc("node_memory_working_set_bytes",
		"Current working set of the node in bytes", nil, nil)
	nodeSwap = prometheus.NewDesc("node_swap_usage_bytes",
		"Current swap usage of the node in bytes. Reported only on non-windows systems", nil, nil)
	podCPU = prometheus.NewDesc("pod_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the pod in core-seconds", []string{"pod", "namespace"}, nil)
	podMemory = prometheus.NewDesc("pod_memory_working_set_bytes",
		"Current working set of the pod in bytes", []string{"pod", "namespace"}, nil)
	podSwap = prometheus.NewDesc("pod_swap_usage_bytes",
		"Current amount of the pod swap usage in bytes. Reported only on non-windows systems", []string{"pod", "namespace"}, nil)
	containerCPU = prometheus.NewDesc("container_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the container in core-seconds", []string{"container", "pod", "namespace"}, nil)
	containerMemory = prometheus.NewDesc("container_memory_working_set_bytes",
		"Current working set of the container in bytes", []string{"container", "pod", "namespace"}, nil)
	containerSwap = prometheus.NewDesc("container_swap_usage_bytes",
		"Current amount of the container swap usage in bytes. Reported only on non-windows systems", []string{"container", "pod", "namespace"}, nil)
	containerSwapLimit = prometheus.NewDesc("container_swap_limit_bytes",
		"Current amount of the container swap limit in bytes. Reported only on non-windows systems", []string{"container", "pod", "namespace"}, nil)
	containerStart = prometheus.NewDesc("container_start_time_seconds",
		"Start time of the container since unix epoch in seconds", []string{"container", "pod", "namespace"}, nil)
	scrapeError = prometheus.NewDesc("resource_scrape_error",
		"1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
)

func (s *Server) resourceMetrics(w http.ResponseWriter, r *http.Request) {
	summary, err := s.config.Host.Stats(r.Context(), true)
	registry := prometheus.NewRegistry()
	// Registering can only fail for wrong descriptions, of which a Gather tells too.
	registry.MustRegister(resources{summary, err != nil})
	gathered(registry).ServeHTTP(w, r) // of pods of one name, one of which ends, one is told
}

// resources turns a summary into metrics that bear the time of measurement.
type resources struct {
	summary *statsv1alpha1.Summary
	failed  bool
}

// Describe implements prometheus.Collector.
func (r resources) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		nodeCPU, nodeMemory, nodeSwap, podCPU, podMemory, podSwap, containerCPU, containerMemory, containerSwap, containerSwapLimit, containerStart, scrapeError,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (r resources) Collect(ch chan<- prometheus.Metric) {
	failed := 0.0
	if r.failed || r.summary == nil {
		failed = 1
	}
	ch <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, failed)
	if failed == 1 {
		return
	}
	cpu(ch, nodeCPU, r.summary.Node.CPU)
	memory(ch, nodeMemory, r.summary.Node.Memory)
	swap(ch, nodeSwap, r.summary.Node.Swap)
	for i := range r.summary.Pods {
		p := &r.summary.Pods[i]
		cpu(ch, podCPU, p.CPU, p.PodRef.Name, p.PodRef.Namespace)
		memory(ch, podMemory, p.Memory, p.PodRef.Name, p.PodRef.Namespace)
		swap(ch, podSwap, p.Swap, p.PodRef.Name, p.PodRef.Namespace)
		for j := range p.Containers {
			c := &p.Containers[j]
			labels := []string{c.Name, p.PodRef.Name, p.PodRef.Namespace}
			cpu(ch, containerCPU, c.CPU, labels...)
			memory(ch, containerMemory, c.Memory, labels...)
			swap(ch, containerSwap, c.Swap, labels...)
			swapLimit(ch, c.Swap, labels...)
			if !c.StartTime.IsZero() {
				ch <- prometheus.MustNewConstMetric(containerStart, prometheus.GaugeValue,
					float64(c.StartTime.UnixNano())/float64(time.Second), labels...)
			}
		}
	}
}

func cpu(ch chan<- prometheus.Metric, d *prometheus.Desc, s *statsv1alpha1.CPUStats, labels ...string) {
	if s == nil || s.UsageCoreNanoSeconds == nil {
		return
	}
	seconds := float64(*s.UsageCoreNanoSeconds) / float64(time.Second)
	ch <- prometheus.NewMetricWithTimestamp(s.Time.Time, prometheus.MustNewConstMetric(d, prometheus.CounterValue, seconds, labels...))
}

func memory(ch chan<- prometheus.Metric, d *prometheus.Desc, s *statsv1alpha1.MemoryStats, labels ...string) {
	if s == nil || s.WorkingSetBytes == nil {
		return
	}
	ch <- prometheus.NewMetricWithTimestamp(s.Time.Time,
		prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(*s.WorkingSetBytes), labels...))
}

func swap(ch chan<- prometheus.Metric, d *prometheus.Desc, s *statsv1alpha1.SwapStats, labels ...string) {
	if s == nil || s.SwapUsageBytes == nil {
		return
	}
	ch <- prometheus.NewMetricWithTimestamp(s.Time.Time,
		prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(*s.SwapUsageBytes), labels...))
}

func swapLimit(ch chan<- prometheus.Metric, s *statsv1alpha1.SwapStats, labels ...string) {
	if s == nil || s.SwapAvailableBytes == nil {
		return
	}
	ch <- prometheus.NewMetricWithTimestamp(s.Time.Time,
		prometheus.MustNewConstMetric(containerSwapLimit, prometheus.GaugeValue, float64(*s.SwapAvailableBytes+ptr.Deref(s.SwapUsageBytes, 0)), labels...))
}
