// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodelifecycle

import "github.com/prometheus/client_golang/prometheus"

// The metrics have upstream's names and labels (pkg/controller/nodelifecycle/metrics.go).
const subsystem = "node_collector"

var (
	evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "evictions_total", Help: "[STABLE] Number of Node evictions that happened since current instance of NodeController started.",
	}, []string{"zone"})
	passDuration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: subsystem, Name: "update_node_health_duration_seconds", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		Help: "[ALPHA] Duration in seconds for NodeController to update the health of a single node.",
	})
)
