// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// Count has the plugins that are made from now on count. What it returns reads how often something was counted, or for a histogram
// observed: by the name and the values of the labels, in the order of their names.
func (h *Handle) Count(tb testing.TB) (read func(series string) float64) {
	tb.Helper()
	h.Metrics = metrics.New()
	registry := prometheus.NewRegistry()
	if err := h.Metrics.Register(registry, func() metrics.State { return metrics.State{} }); err != nil {
		tb.Fatal(err)
	}
	return func(series string) (n float64) {
		tb.Helper()
		families, err := registry.Gather()
		if err != nil {
			tb.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				key := []string{f.GetName()}
				for _, l := range m.GetLabel() {
					key = append(key, l.GetValue())
				}
				if strings.Join(key, " ") == series {
					n += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
		return n
	}
}
