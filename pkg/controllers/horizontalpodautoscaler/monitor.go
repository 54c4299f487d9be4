// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// The metrics have upstream's names and labels (pkg/controller/podautoscaler/monitor).
const subsystem = "horizontal_pod_autoscaler_controller"

const labelHelp = " The label 'action' is either 'scale_down', 'scale_up', or 'none', the label 'error' either 'spec', 'internal', or 'none'."

var (
	durations = prometheus.ExponentialBuckets(0.001, 2, 15)

	reconciliations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "reconciliations_total",
		Help: "[BETA] Number of reconciliations of HPA controller." + labelHelp,
	}, []string{"action", "error"})
	reconciliationDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: subsystem, Name: "reconciliation_duration_seconds", Buckets: durations,
		Help: "[BETA] The time(seconds) that the HPA controller takes to reconcile once." + labelHelp,
	}, []string{"action", "error"})
	computations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "metric_computation_total",
		Help: "[BETA] Number of metric computations." + labelHelp + " The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
	}, []string{"action", "error", "metric_type"})
	computationDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: subsystem, Name: "metric_computation_duration_seconds", Buckets: durations,
		Help: "[BETA] The time(seconds) that the HPA controller takes to calculate one metric." + labelHelp + " The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
	}, []string{"action", "error", "metric_type"})
	controlled = prometheus.NewGauge(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "num_horizontal_pod_autoscalers", Help: "[ALPHA] Current number of controlled HPA objects.",
	})
	desiredReplicas = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: subsystem, Name: "desired_replicas", Help: "[ALPHA] Current desired replica count for HPA objects.",
	}, []string{"namespace", "hpa_name"})
)

// countPass counts a pass that changed the number of pods from one to another.
func countPass(from, to int32, err error, took time.Duration) {
	labels := []string{actionOf(from, to), errorOf(err)}
	reconciliations.WithLabelValues(labels...).Inc()
	reconciliationDuration.WithLabelValues(labels...).Observe(took.Seconds())
}

// countComputation counts what one metric came to.
func countComputation(kind autoscalingv2.MetricSourceType, from, to int32, err error, took time.Duration) {
	if err != nil {
		to = from
	}
	labels := []string{actionOf(from, to), errorOf(err), string(kind)}
	computations.WithLabelValues(labels...).Inc()
	computationDuration.WithLabelValues(labels...).Observe(took.Seconds())
}

func actionOf(from, to int32) string {
	switch {
	case to > from:
		return "scale_up"
	case to < from:
		return "scale_down"
	}
	return "none"
}

func errorOf(err error) string {
	var spec invalidSpec
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &spec):
		return "spec"
	}
	return "internal"
}
