// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"
)

// groups are the metrics of pods that are scheduled as groups.
type groups struct {
	attempts          *prometheus.CounterVec
	attemptDuration   *prometheus.HistogramVec
	algorithmDuration prometheus.Histogram
	preemptions       *prometheus.CounterVec
	victims           prometheus.Histogram
	disruptions       *prometheus.HistogramVec
	evaluation        *prometheus.HistogramVec
	execution         *prometheus.HistogramVec
	violations        *prometheus.CounterVec
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
		disruptions: histogram(alpha, "preemption_workload_disruptions",
			"Number of groups of pods that are preempted as a whole at once.", prometheus.ExponentialBuckets(1, 2, 11), "preemptor"),
		evaluation: histogram(alpha, "preemption_evaluation_duration_seconds",
			"Duration in seconds for choosing victims.", prometheus.ExponentialBuckets(0.001, 2, 16), "preemptor", "result"),
		execution: histogram(alpha, "preemption_execution_duration_seconds",
			"Duration in seconds for asking victims to go, beside the scheduling cycles.", prometheus.ExponentialBuckets(0.001, 2, 16), "preemptor", "result"),
		violations: counter(alpha, "preemption_pdb_violations_total",
			"Total number of pod disruption budget violations caused by preemption.", "preemptor"),
	}
}

// RegisterGroups adds the metrics of groups to a registry, which upstream has with
// the gate GenericWorkload only.
func (m *Metrics) RegisterGroups(r prometheus.Registerer) error {
	g := m.groups
	var errs []error
	for _, c := range []prometheus.Collector{g.attempts, g.attemptDuration, g.algorithmDuration, g.preemptions, g.victims,
		g.disruptions, g.evaluation, g.execution, g.violations} {
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

// GroupVictims tells how many pods are preempted for a group, how often a disruption
// budget is violated by that, and how many groups go as a whole.
func (m *Metrics) GroupVictims(n, violations, groups int) {
	if m == nil {
		return
	}
	m.groups.victims.Observe(float64(n))
	m.groups.violate(fwk.PodGroupKeyType, violations)
	if groups > 0 {
		m.groups.disruptions.WithLabelValues(string(fwk.PodGroupKeyType)).Observe(float64(groups))
	}
}

// Evaluated tells how the choice of victims for a pod or a group ended, which began at start.
func (m *Metrics) Evaluated(by fwk.EntityKeyType, code fwk.Code, start time.Time) {
	if m != nil {
		m.groups.evaluation.WithLabelValues(string(by), code.String()).Observe(time.Since(start).Seconds())
	}
}

func (g *groups) violate(by fwk.EntityKeyType, times int) {
	if times > 0 {
		g.violations.WithLabelValues(string(by)).Add(float64(times))
	}
}
