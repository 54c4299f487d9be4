// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics is what the scheduler counts, under the names, labels and
// buckets of upstream's kube-scheduler 1.37 (pkg/scheduler/metrics). Touch it when
// upstream counts something else, or a metric becomes more stable.
package metrics

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	fwk "k8s.io/kube-scheduler/framework"
)

// Results of what runs beside the scheduling cycles, as labels.
const (
	success = "success"
	failure = "error"
)

// The calls of the API that are made beside the scheduling cycles, as labels.
const (
	StatusPatch = "pod_status_patch"
	Binding     = "pod_binding"
)

// Metrics counts for one scheduler. A nil pointer counts nothing, so that nobody
// has to ask whether somebody wants to know. It is safe for concurrent use.
type Metrics struct {
	attempts          *prometheus.CounterVec
	attemptDuration   *prometheus.HistogramVec
	algorithmDuration prometheus.Histogram
	podAttempts       prometheus.Histogram
	podDuration       *prometheus.HistogramVec
	afterFlush        prometheus.Counter

	eventDuration    *prometheus.HistogramVec
	hintDuration     *prometheus.HistogramVec
	incomingPods     *prometheus.CounterVec
	incomingEntities *prometheus.CounterVec

	pointDuration  *prometheus.HistogramVec
	pluginDuration *prometheus.HistogramVec
	evaluations    *prometheus.CounterVec
	permitWait     *prometheus.HistogramVec
	goroutines     *prometheus.GaugeVec

	preemptionAttempts prometheus.Counter
	preemptionVictims  prometheus.Histogram
	preemptions        *prometheus.CounterVec
	preemptionDuration *prometheus.HistogramVec

	calls        *prometheus.CounterVec
	callDuration *prometheus.HistogramVec

	claims claims
	groups groups
}

// The stability of a metric stands before its text, where upstream puts it.
const (
	alpha  = "[ALPHA] "
	beta   = "[BETA] "
	stable = "[STABLE] "
)

func counter(stability, name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "scheduler", Name: name, Help: stability + help}, labels)
}

func histogram(stability, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "scheduler", Name: name, Help: stability + help, Buckets: buckets}, labels)
}

// New returns metrics that are not registered yet.
func New() *Metrics {
	var (
		attempts = prometheus.ExponentialBuckets(0.001, 2, 15)     // of a pod, in seconds
		points   = prometheus.ExponentialBuckets(0.0001, 2, 12)    // of all plugins
		plugins  = prometheus.ExponentialBuckets(0.00001, 1.5, 20) // of one plugin
	)
	return &Metrics{
		attempts: counter(stable, "schedule_attempts_total",
			"Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.", "result", "profile"),
		attemptDuration: histogram(stable, "scheduling_attempt_duration_seconds",
			"Scheduling attempt latency in seconds (scheduling algorithm + binding)", attempts, "result", "profile"),
		algorithmDuration: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "scheduler", Name: "scheduling_algorithm_duration_seconds",
			Help: beta + "Scheduling algorithm latency in seconds", Buckets: attempts}),
		podAttempts: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "scheduler", Name: "pod_scheduling_attempts",
			Help: stable + "Number of attempts to successfully schedule a pod.", Buckets: prometheus.ExponentialBuckets(1, 2, 5)}),
		podDuration: histogram(beta, "pod_scheduling_sli_duration_seconds",
			"E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.",
			prometheus.ExponentialBuckets(0.01, 2, 20), "attempts"),
		afterFlush: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "scheduler", Name: "pod_scheduled_after_flush_total",
			Help: alpha + "Number of pods that were successfully scheduled after being flushed from unschedulableEntities due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues."}),

		eventDuration: histogram(alpha, "event_handling_duration_seconds", "Event handling latency in seconds.", points, "event"),
		hintDuration: histogram(alpha, "queueing_hint_execution_duration_seconds",
			"Duration for running a queueing hint function of a plugin.", plugins, "plugin", "event", "hint"),
		incomingPods: counter(stable, "queue_incoming_pods_total", "Number of pods added to scheduling queues by event and queue type.", "queue", "event"),
		incomingEntities: counter(alpha, "queue_incoming_entities_total",
			"Number of scheduling entities added to scheduling queues by event, queue type, and entity type. Entity types are either 'pod' (for individual pods that are not members of any podgroup) or 'podgroup'.", "queue", "event", "type"),

		pointDuration: histogram(stable, "framework_extension_point_duration_seconds",
			"Latency for running all plugins of a specific extension point.", points, "extension_point", "status", "profile"),
		pluginDuration: histogram(beta, "plugin_execution_duration_seconds",
			"Duration for running a plugin at a specific extension point.", plugins, "plugin", "extension_point", "status"),
		evaluations: counter(beta, "plugin_evaluation_total",
			"Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, Filter, PreScore, and Score).", "plugin", "extension_point", "profile"),
		permitWait: histogram(beta, "permit_wait_duration_seconds", "Duration of waiting on permit.", attempts, "result"),
		goroutines: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "scheduler", Name: "goroutines",
			Help: beta + "Number of running goroutines split by the work they do such as binding."}, []string{"operation"}),

		preemptionAttempts: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "scheduler", Name: "preemption_attempts_total",
			Help: stable + "Total preemption attempts in the cluster till now"}),
		preemptionVictims: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "scheduler", Name: "preemption_victims",
			Help: stable + "Number of selected preemption victims for preemption initiated by a single pod", Buckets: prometheus.ExponentialBuckets(1, 2, 7)}),
		preemptions: counter(alpha, "preemption_goroutines_execution_total", "Number of preemption goroutines executed.", "result"),
		preemptionDuration: histogram(alpha, "preemption_goroutines_duration_seconds",
			"(Deprecated since 1.37.0) Duration in seconds for running goroutines for the preemption.", prometheus.ExponentialBuckets(0.01, 2, 20), "result"),

		calls: counter(alpha, "async_api_call_execution_total", "Total number of API calls executed by the async dispatcher.", "call_type", "result"),
		callDuration: histogram(alpha, "async_api_call_execution_duration_seconds",
			"Duration in seconds for executing API call in the async dispatcher.", attempts, "call_type", "result"),

		claims: newClaims(),
		groups: newGroups(attempts),
	}
}

// Register adds the metrics to a registry. state is asked for what is told at the
// moment of a scrape.
func (m *Metrics) Register(r prometheus.Registerer, state func() State) error {
	var errs []error
	for _, c := range append(m.claims.all(),
		m.attempts, m.attemptDuration, m.algorithmDuration, m.podAttempts, m.podDuration, m.afterFlush,
		m.eventDuration, m.hintDuration, m.incomingPods, m.incomingEntities,
		m.pointDuration, m.pluginDuration, m.evaluations, m.permitWait, m.goroutines,
		m.preemptionAttempts, m.preemptionVictims, m.preemptions, m.preemptionDuration,
		m.calls, m.callDuration, gauges{state},
	) {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

// Placed tells how long it took to choose a node.
func (m *Metrics) Placed(took time.Duration) {
	if m != nil {
		m.algorithmDuration.Observe(took.Seconds())
	}
}

// Attempted tells of an attempt: "scheduled", "unschedulable" or "error".
func (m *Metrics) Attempted(result, profile string, took time.Duration) {
	if m == nil {
		return
	}
	m.attempts.WithLabelValues(result, profile).Inc()
	m.attemptDuration.WithLabelValues(result, profile).Observe(took.Seconds())
}

// Bound tells of a pod that has its node, so long after the first attempt began,
// and whether it was tried again only because it had waited too long.
func (m *Metrics) Bound(attempts int, took time.Duration, flushed bool) {
	if m == nil {
		return
	}
	m.podAttempts.Observe(float64(attempts))
	m.podDuration.WithLabelValues(attemptsLabel(attempts)).Observe(took.Seconds())
	if flushed {
		m.afterFlush.Inc()
	}
}

// attemptsLabel is bounded, as upstream's is.
func attemptsLabel(n int) string {
	if n >= 15 {
		return "15+"
	}
	return strconv.Itoa(n)
}

// Handled tells how long the handler of an event took that began at start.
func (m *Metrics) Handled(event string, start time.Time) {
	if m != nil {
		m.eventDuration.WithLabelValues(event).Observe(time.Since(start).Seconds())
	}
}

// Hinted tells how long a plugin thought about an event that may help a pod.
func (m *Metrics) Hinted(plugin, event, hint string, took time.Duration) {
	if m != nil {
		m.hintDuration.WithLabelValues(plugin, event, hint).Observe(took.Seconds())
	}
}

// Queued tells that an event put a pod into a queue: "active", "backoff" or
// "unschedulable", and what came into the queue by that, if it was not there already.
func (m *Metrics) Queued(queue, event, entity string) {
	if m == nil {
		return
	}
	m.incomingPods.WithLabelValues(queue, event).Inc()
	if entity != "" {
		m.incomingEntities.WithLabelValues(queue, event, entity).Inc()
	}
}

// PermitWaited tells how long a pod was held by Permit plugins, and what came of it.
func (m *Metrics) PermitWaited(status string, start time.Time) {
	if m != nil {
		m.permitWait.WithLabelValues(status).Observe(time.Since(start).Seconds())
	}
}

// Running adds n to the goroutines that do some work.
func (m *Metrics) Running(operation string, n int) {
	if m != nil {
		m.goroutines.WithLabelValues(operation).Add(float64(n))
	}
}

// Preempting tells of a try to make room for a pod.
func (m *Metrics) Preempting() {
	if m != nil {
		m.preemptionAttempts.Inc()
	}
}

// Victims tells how many pods were chosen to go for another, and how often a
// disruption budget is violated by that.
func (m *Metrics) Victims(n, violations int) {
	if m != nil {
		m.preemptionVictims.Observe(float64(n))
		m.groups.violate(fwk.PodKeyType, violations)
	}
}

// Preempted tells how asking victims to go for a pod or a group ended, which began at start.
func (m *Metrics) Preempted(by fwk.EntityKeyType, err error, start time.Time) {
	if m != nil {
		took := time.Since(start).Seconds()
		m.preemptions.WithLabelValues(outcome(err)).Inc()
		m.preemptionDuration.WithLabelValues(outcome(err)).Observe(took)
		m.groups.execution.WithLabelValues(string(by), outcome(err)).Observe(took)
	}
}

// Called tells how a call of the API beside the cycles ended, which began at start.
func (m *Metrics) Called(kind string, err error, start time.Time) {
	if m != nil {
		m.calls.WithLabelValues(kind, outcome(err)).Inc()
		m.callDuration.WithLabelValues(kind, outcome(err)).Observe(time.Since(start).Seconds())
	}
}

func outcome(err error) string {
	if err != nil {
		return failure
	}
	return success
}
