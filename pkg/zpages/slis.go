// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package zpages

import (
	"net/http"

	"k8s.io/component-base/metrics"
)

// Indicators count what came of a component's checks of /healthz, in the names of k8s.io/component-base's slis, which has one registry for
// all of a process: there each component would tell of the others. They are safe for concurrent use.
type Indicators struct {
	registry metrics.KubeRegistry
	last     *metrics.GaugeVec
	total    *metrics.CounterVec
}

// NewIndicators returns those of a component that was not asked yet.
func NewIndicators() *Indicators {
	i := &Indicators{
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

// Observe notes what came of a check.
func (i *Indicators) Observe(check string, err error) {
	const kind = "healthz"
	value, status := 1.0, "success"
	if err != nil {
		value, status = 0, "error"
	}
	i.last.WithLabelValues(check, kind).Set(value)
	i.total.WithLabelValues(check, kind, status).Inc()
}

// Handler serves them; DELETE begins anew.
func (i *Indicators) Handler() http.Handler {
	return metrics.HandlerWithReset(i.registry, metrics.HandlerOpts{})
}
