// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cronjob

import "github.com/prometheus/client_golang/prometheus"

// creationSkew has upstream's name (pkg/controller/cronjob/metrics).
var creationSkew = prometheus.NewHistogram(prometheus.HistogramOpts{
	Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	Help: "[STABLE] Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
})
