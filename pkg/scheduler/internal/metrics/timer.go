// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"
)

// Timer is a histogram with a series per status code. To find a series is to hash
// its labels, so that a timer keeps those that it has found: observing allocates
// nothing. A nil timer observes nothing. It is safe for concurrent use.
type Timer struct {
	find   func(status string) prometheus.Observer
	series [fwk.Pending + 1]atomic.Pointer[prometheus.Observer]
}

// Point returns the timer of an extension point of a profile.
func (m *Metrics) Point(point, profile string) *Timer {
	if m == nil {
		return nil
	}
	return &Timer{find: func(status string) prometheus.Observer {
		return m.pointDuration.WithLabelValues(point, status, profile)
	}}
}

// Plugin returns the timer of a plugin at an extension point.
func (m *Metrics) Plugin(plugin, point string) *Timer {
	if m == nil {
		return nil
	}
	return &Timer{find: func(status string) prometheus.Observer {
		return m.pluginDuration.WithLabelValues(plugin, point, status)
	}}
}

// Evaluations returns the counter of a plugin's calls at an extension point, nil if nobody counts.
func (m *Metrics) Evaluations(plugin, point, profile string) prometheus.Counter {
	if m == nil {
		return nil
	}
	return m.evaluations.WithLabelValues(plugin, point, profile)
}

// Observe tells that something ended with a status.
func (t *Timer) Observe(code fwk.Code, took time.Duration) {
	if t == nil || code < 0 || int(code) >= len(t.series) {
		return
	}
	series := t.series[code].Load()
	if series == nil {
		found := t.find(code.String())
		series = &found
		t.series[code].Store(series)
	}
	(*series).Observe(took.Seconds())
}

// Since observes what began at start and ends with the status that is there now;
// it is made for defer.
func (t *Timer) Since(start time.Time, status **fwk.Status) {
	if t != nil {
		t.Observe((*status).Code(), time.Since(start))
	}
}
