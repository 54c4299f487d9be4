// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"
	componentmetrics "k8s.io/component-base/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	stable = "[STABLE] "
	beta   = "[BETA] "
)

// upstreams returns the metrics of kube-controller-manager 1.37 that are stable or beta and belong to one controller: those of
// test/instrumentation/testdata/stable-metrics-list.yaml, which is generated from pkg/controller/*/metrics and from the packages of
// controllers that are published, such as k8s.io/endpointslice. Texts are ours where upstream's go over several lines.
func upstreams() map[string]prometheus.Collector {
	counter := func(subsystem, name, help string, labels ...string) prometheus.Collector {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	histogram := func(subsystem, name, help string, buckets []float64, labels ...string) prometheus.Collector {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels)
	}
	gauge := func(subsystem, name, help string, labels ...string) prometheus.Collector {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	const job, hpa, slices = "job_controller", "horizontal_pod_autoscaler_controller", "endpoint_slice_controller"
	const labels = " The label 'action' is either 'scale_down', 'scale_up', or 'none', the label 'error' either 'spec', 'internal', or 'none'."
	const kind = labels + " The label 'metric_type' corresponds to HPA.spec.metrics[*].type"
	return map[string]prometheus.Collector{
		"job_sync_duration_seconds": histogram(job, "job_sync_duration_seconds", stable+"The time it took to sync a job",
			prometheus.ExponentialBuckets(0.004, 2, 15), "completion_mode", "result", "action"),
		"job_syncs_total":         counter(job, "job_syncs_total", stable+"The number of job syncs", "completion_mode", "result", "action"),
		"jobs_finished_total":     counter(job, "jobs_finished_total", stable+"The number of finished jobs", "completion_mode", "result", "reason"),
		"job_pods_finished_total": counter(job, "job_pods_finished_total", stable+"The number of finished Pods that are fully tracked", "completion_mode", "result"),
		"pod_failures_handled_by_failure_policy_total": counter(job, "pod_failures_handled_by_failure_policy_total",
			beta+"The number of failed Pods that a rule of a failure policy matched, by its action: FailJob, FailIndex, Ignore or Count", "action"),
		"terminated_pods_tracking_finalizer_total": counter(job, "terminated_pods_tracking_finalizer_total",
			beta+"The number of terminated pods (phase=Failed|Succeeded) that have the finalizer batch.kubernetes.io/job-tracking; the event is add or delete", "event"),
		"job_creation_skew_duration_seconds": prometheus.NewHistogram(prometheus.HistogramOpts{Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds",
			Help: stable + "Time between when a cronjob is scheduled to be run, and when the corresponding job is created", Buckets: prometheus.ExponentialBuckets(1, 2, 10)}),
		"evictions_total": counter("node_collector", "evictions_total",
			stable+"Number of Node evictions that happened since current instance of NodeController started.", "zone"),
		"reconciliations_total": counter(hpa, "reconciliations_total", beta+"Number of reconciliations of HPA controller."+labels, "action", "error"),
		"reconciliation_duration_seconds": histogram(hpa, "reconciliation_duration_seconds",
			beta+"The time(seconds) that the HPA controller takes to reconcile once."+labels, prometheus.ExponentialBuckets(0.001, 2, 15), "action", "error"),
		"metric_computation_total": counter(hpa, "metric_computation_total", beta+"Number of metric computations."+kind, "action", "error", "metric_type"),
		"metric_computation_duration_seconds": histogram(hpa, "metric_computation_duration_seconds",
			beta+"The time(seconds) that the HPA controller takes to calculate one metric."+kind, prometheus.ExponentialBuckets(0.001, 2, 15), "action", "error", "metric_type"),
		"endpoints_added_per_sync": histogram(slices, "endpoints_added_per_sync", beta+"Number of endpoints added on each Service sync",
			prometheus.ExponentialBuckets(2, 2, 15)),
		"endpoints_removed_per_sync": histogram(slices, "endpoints_removed_per_sync", beta+"Number of endpoints removed on each Service sync",
			prometheus.ExponentialBuckets(2, 2, 15)),
		"endpoints_desired":   gauge(slices, "endpoints_desired", beta+"Number of endpoints desired"),
		"num_endpoint_slices": gauge(slices, "num_endpoint_slices", beta+"Number of EndpointSlices"),
		"desired_endpoint_slices": gauge(slices, "desired_endpoint_slices",
			beta+"Number of EndpointSlices that would exist with perfect endpoint allocation"),
		"services_count_by_traffic_distribution": gauge(slices, "services_count_by_traffic_distribution",
			beta+"Number of Services using some specific trafficDistribution", "traffic_distribution"),
	}
}

// A registry that is given a metric it has tells which it has, or what is different.
func TestMetrics_Upstreams(t *testing.T) {
	server := discoveryServer(t)
	_, err := New(Config{
		RESTConfig: &rest.Config{Host: server.URL},
		ClientFor:  func(string) (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil },
		RootCA:     []byte("PEM"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range upstreams() {
		t.Run(name, func(t *testing.T) {
			err := metrics.Registry.Register(want)
			var already prometheus.AlreadyRegisteredError
			if err == nil {
				metrics.Registry.Unregister(want)
				t.Fatal("it is not registered")
			}
			if !errors.As(err, &already) {
				t.Fatal(err)
			}
			got := plain(already.ExistingCollector)
			if fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
				t.Fatalf("it is a %T, want %T", got, want)
			}
			if diff := cmp.Diff(buckets(t, want), buckets(t, got), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("buckets differ (-upstream +ours):\n%s", diff)
			}
		})
	}
}

// plain returns what is within a metric of component-base, which is made when it is registered.
func plain(c prometheus.Collector) prometheus.Collector {
	switch c := c.(type) {
	case *componentmetrics.HistogramVec:
		return c.HistogramVec
	case *componentmetrics.GaugeVec:
		return c.GaugeVec
	}
	return c
}

// buckets are the bounds of a histogram, none of what is not one. Of a vector it
// makes a series, which it takes away.
func buckets(t *testing.T, c prometheus.Collector) (out []float64) {
	t.Helper()
	m, ok := c.(prometheus.Metric)
	if v, vector := c.(*prometheus.HistogramVec); vector {
		var values []string
		series, err := v.GetMetricWithLabelValues()
		for err != nil && len(values) < 3 {
			values = append(values, "test")
			series, err = v.GetMetricWithLabelValues(values...)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer v.DeleteLabelValues(values...)
		m, ok = series.(prometheus.Metric)
	}
	if !ok {
		return nil
	}
	var written dto.Metric
	if err := m.Write(&written); err != nil {
		t.Fatal(err)
	}
	for _, b := range written.GetHistogram().GetBucket() {
		out = append(out, b.GetUpperBound())
	}
	return out
}
