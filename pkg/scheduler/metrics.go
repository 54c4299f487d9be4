// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
)

// metrics has upstream's names and labels. The zero value of a nil pointer
// observes nothing.
type metrics struct {
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, q *queue.Queue) (*metrics, error) {
	if r == nil {
		return nil, nil
	}
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total",
			Help: "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
		}, []string{"result", "profile"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scheduler_scheduling_attempt_duration_seconds",
			Help:    "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"result", "profile"}),
	}
	errs := []error{r.Register(m.attempts), r.Register(m.duration)}
	for _, name := range []string{"active", "backoff", "unschedulable", "gated"} {
		errs = append(errs, r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "scheduler_pending_pods",
			Help:        "Number of pending pods, by the queue type.",
			ConstLabels: prometheus.Labels{"queue": name},
		}, func() float64 { return float64(q.Pending()[name]) })))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) attempt(result, profile string, d time.Duration) {
	if m == nil {
		return
	}
	m.attempts.WithLabelValues(result, profile).Inc()
	m.duration.WithLabelValues(result, profile).Observe(d.Seconds())
}
