// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"

	"k8s.io/component-base/metrics"
)

// indicators count what came of the checks of /healthz (KEP-3466), in the names of k8s.io/component-base's slis, which has one
// registry for all of a process: an API server's would be among those of the kubelet.
type indicators struct {
	registry metrics.KubeRegistry
	last     *metrics.GaugeVec
	total    *metrics.CounterVec
}

func newIndicators() *indicators {
	i := &indicators{
		registry: metrics.NewKubeRegistry(),
		last: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: "kubernetes", Name: "healthcheck", Help: "This metric records the result of a single healthcheck.", StabilityLevel: metrics.STABLE,
		}, []string{"name", "type"}),
		total: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: "kubernetes", Name: "healthchecks_total", Help: "This metric records the results of all healthcheck.", StabilityLevel: metrics.STABLE,
		}, []string{"name", "type", "status"}),
	}
	i.registry.MustRegister(i.last, i.total)
	_ = metrics.RegisterProcessStartTime(i.registry.Register) // without it the rest is told all the same, as upstream
	return i
}

// observe notes what came of a check.
func (i *indicators) observe(name string, err error) {
	const kind = "healthz"
	value, status := 1.0, "success"
	if err != nil {
		value, status = 0, "error"
	}
	i.last.WithLabelValues(name, kind).Set(value)
	i.total.WithLabelValues(name, kind, status).Inc()
}

// handler serves them; DELETE begins anew.
func (i *indicators) handler() http.Handler {
	return metrics.HandlerWithReset(i.registry, metrics.HandlerOpts{})
}
