// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// The metrics have upstream's names, labels and stability (pkg/controller/job/metrics).
const subsystem = "job_controller"

var (
	syncDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: subsystem, Name: "job_sync_duration_seconds", Help: "[STABLE] The time it took to sync a job",
		Buckets: prometheus.ExponentialBuckets(0.004, 2, 15),
	}, []string{"completion_mode", "result", "action"})
	syncs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "job_syncs_total", Help: "[STABLE] The number of job syncs",
	}, []string{"completion_mode", "result", "action"})
	finishedJobs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "jobs_finished_total", Help: "[STABLE] The number of finished jobs",
	}, []string{"completion_mode", "result", "reason"})
	finishedPods = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "job_pods_finished_total", Help: "[STABLE] The number of finished Pods that are fully tracked",
	}, []string{"completion_mode", "result"})
	finishedIndexes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "job_finished_indexes_total",
		Help: "[ALPHA] The number of finished indexes; the status is succeeded or failed, the backoffLimit perIndex or global",
	}, []string{"status", "backoffLimit"})
	judgedFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "pod_failures_handled_by_failure_policy_total",
		Help: "[BETA] The number of failed Pods that a rule of a failure policy matched, by its action: FailJob, FailIndex, Ignore or Count",
	}, []string{"action"})
	trackedEnds = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "terminated_pods_tracking_finalizer_total",
		Help: "[BETA] The number of terminated pods (phase=Failed|Succeeded) that have the finalizer batch.kubernetes.io/job-tracking; the event is add or delete",
	}, []string{"event"})
	createdPods = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "job_pods_creation_total",
		Help: "[ALPHA] The number of Pods created by the Job controller; the reason is new, recreate_terminating_or_failed or recreate_failed, the status succeeded or failed",
	}, []string{"reason", "status"})
	external = prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "jobs_by_external_controller_total", Help: "[ALPHA] The number of Jobs managed by an external controller",
	}, []string{"controller_name"})
)

var metrics = []prometheus.Collector{
	syncDuration, syncs, finishedJobs, finishedPods, finishedIndexes, judgedFailures, trackedEnds, createdPods, external,
}

// action is what a pass did with pods, a label.
type action string

const (
	reconciling action = "reconciling" // it came to no decision about pods
	tracking    action = "tracking"
	podsCreated action = "pods_created"
	podsDeleted action = "pods_deleted"
)

func modeOf(job *batchv1.Job) string {
	return string(ptr.Deref(job.Spec.CompletionMode, batchv1.NonIndexedCompletion))
}

// countPass counts a pass.
func countPass(job *batchv1.Job, did action, err error, took time.Duration) {
	result := "success"
	if err != nil {
		result = "error"
	}
	syncDuration.WithLabelValues(modeOf(job), result, string(did)).Observe(took.Seconds())
	syncs.WithLabelValues(modeOf(job), result, string(did)).Inc()
}

// countEnd counts a Job that is finished.
func countEnd(job *batchv1.Job, final *batchv1.JobCondition) {
	result := "succeeded"
	if final.Type == batchv1.JobFailed {
		result = "failed"
	}
	finishedJobs.WithLabelValues(modeOf(job), result, final.Reason).Inc()
}

// counted is how many pods and indexes a status has.
type counted struct{ succeeded, failed, failedIndexes int }

func countedIn(job *batchv1.Job) counted {
	c := counted{succeeded: int(job.Status.Succeeded), failed: int(job.Status.Failed)}
	if isIndexed(job) {
		completions := int(*job.Spec.Completions)
		c.succeeded = parseIndexes(job.Status.CompletedIndexes, completions).count()
		c.failedIndexes = parseIndexes(ptr.Deref(job.Status.FailedIndexes, ""), completions).count()
	}
	return c
}

// countChange counts what a written status has more than the one before.
func countChange(job *batchv1.Job, before counted) {
	now := countedIn(job)
	// A Job whose completions were scaled down has fewer than before.
	succeeded := float64(max(0, now.succeeded-before.succeeded))
	finishedPods.WithLabelValues(modeOf(job), "succeeded").Add(succeeded)
	finishedPods.WithLabelValues(modeOf(job), "failed").Add(float64(max(0, now.failed-before.failed)))
	if isIndexed(job) {
		limit := "global"
		if job.Spec.BackoffLimitPerIndex != nil {
			limit = "perIndex"
		}
		finishedIndexes.WithLabelValues("succeeded", limit).Add(succeeded)
		finishedIndexes.WithLabelValues("failed", limit).Add(float64(max(0, now.failedIndexes-before.failedIndexes)))
	}
}

// countCreated counts pods that were created, and those that could not be.
func countCreated(s *state, created, failed *atomic.Int64) {
	reason := "new"
	switch {
	case s.failed > 0 && replacesOnlyFailed(s.job):
		reason = "recreate_failed"
	case s.failed > 0 || s.terminating > 0:
		reason = "recreate_terminating_or_failed"
	}
	for status, n := range map[string]*atomic.Int64{"succeeded": created, "failed": failed} {
		if n.Load() > 0 {
			createdPods.WithLabelValues(reason, status).Add(float64(n.Load()))
		}
	}
}

// countTracked counts that a pod becomes one that has ended and waits to be counted, or is one no more. Either may be nil.
func countTracked(before, after client.Object) {
	was, is := waits(before), waits(after)
	switch {
	case is && !was:
		trackedEnds.WithLabelValues("add").Inc()
	case was && !is:
		trackedEnds.WithLabelValues("delete").Inc()
	}
}

func waits(obj client.Object) bool {
	pod, ok := obj.(*corev1.Pod)
	return ok && pods.IsTerminal(pod) && hasFinalizer(pod)
}
