// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// MetricsPath is where the API server serves Metrics. Upstream's kube-controller-manager has a port of its own for them, which
// several clusters on one machine could not share. Who may get the path is told by RBAC (a rule on nonResourceURLs), as for
// the API server's own /metrics.
const MetricsPath = "/metrics/controllers"

// Metrics serves what the controllers of this process count: workqueue_*, whose label name is that of a line in List, and
// controller_runtime_*. Several sets of controllers in one process share the numbers. Queues that are not made by controller-runtime,
// such as the garbage collector's, are counted at /metrics.
func Metrics() http.Handler {
	return promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}
