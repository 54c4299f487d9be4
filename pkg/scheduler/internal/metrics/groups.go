// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// groups are the metrics of pods that are scheduled as groups.
type groups struct {
	attempts          *prometheus.CounterVec
	attemptDuration   *prometheus.HistogramVec
	algorithmDuration prometheus.Histogram
	preemptions       *prometheus.CounterVec
	victims           prometheus.Histogram
}

func newGroups(attempts []float64) groups {
	return groups{
		attempts: counter(alpha, "podgroup_schedule_attempts_total",
			"Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not be scheduled, while 'error' means an internal scheduler problem.", "result", "profile"),
		attemptDuration: histogram(alpha, "podgroup_scheduling_attempt_duration_seconds",
			"Pod group scheduling attempt latency in seconds", attempts, "result", "profile"),
		algorithmDuration: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "scheduler", Name: "podgroup_scheduling_algorithm_duration_seconds",
			Help: alpha + "Pod group scheduling algorithm latency in seconds", Buckets: attempts}),
		preemptions: counter(alpha, "workload_preemption_attempts_total",
			"Total preemption attempts initiated by workload (including pod groups) in the cluster till now.", "result"),
		victims: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "scheduler", Name: "workload_preemption_victims",
			Help: alpha + "Number of pod preemption victims caused by workload preemption.", Buckets: prometheus.ExponentialBuckets(1, 2, 11)}),
	}
}

// RegisterGroups adds the metrics of groups to a registry, which upstream has with
// the gate GenericWorkload only.
func (m *Metrics) RegisterGroups(r prometheus.Registerer) error {
	g := m.groups
	var errs []error
	for _, c := range []prometheus.Collector{g.attempts, g.attemptDuration, g.algorithmDuration, g.preemptions, g.victims} {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

// GroupPlaced tells how long it took to choose nodes for a group.
func (m *Metrics) GroupPlaced(took time.Duration) {
	if m != nil {
		m.groups.algorithmDuration.Observe(took.Seconds())
	}
}

// GroupAttempted tells of an attempt to place a group: "scheduled", "unschedulable",
// "waiting_on_preemption" or "error".
func (m *Metrics) GroupAttempted(result, profile string, took time.Duration) {
	if m == nil {
		return
	}
	m.groups.attempts.WithLabelValues(result, profile).Inc()
	m.groups.attemptDuration.WithLabelValues(result, profile).Observe(took.Seconds())
}

// PreemptingForGroup counts an attempt to make room for a group, by the code it ended with.
func (m *Metrics) PreemptingForGroup(result string) {
	if m != nil {
		m.groups.preemptions.WithLabelValues(result).Inc()
	}
}

// GroupVictims tells how many pods are preempted for a group.
func (m *Metrics) GroupVictims(n int) {
	if m != nil {
		m.groups.victims.Observe(float64(n))
	}
}
