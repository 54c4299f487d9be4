// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verdict returns the condition that ends the Job, or nil while it has to go on. A Job is sentenced first
// (FailureTarget, SuccessCriteriaMet), and ends (Failed, Complete) when its last pod is gone: the verdict of an earlier
// pass stands, and of several reasons the first one here counts. That all completions are reached is found only after
// pods were managed, see isComplete.
func (s *state) verdict(now time.Time) *batchv1.JobCondition {
	spec := &s.job.Spec
	if c := trueCondition(s.job, batchv1.JobSuccessCriteriaMet); c != nil {
		return c
	}
	if c := trueCondition(s.job, batchv1.JobFailureTarget); c != nil {
		return newCondition(batchv1.JobFailed, corev1.ConditionTrue, c.Reason, c.Message, now)
	}
	failure := func(reason, message string) *batchv1.JobCondition {
		return newCondition(batchv1.JobFailureTarget, corev1.ConditionTrue, reason, message, now)
	}
	if message := s.fatalFailure(); message != "" {
		return failure(batchv1.JobReasonPodFailurePolicy, message)
	}
	if s.failed > int(*spec.BackoffLimit) || s.restartedTooOften() {
		return failure(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	}
	if left, limited := untilDeadline(s.job, now); limited && left <= 0 {
		return failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	if !isIndexed(s.job) {
		return nil
	}
	if failed := s.failedIndexes.count(); spec.BackoffLimitPerIndex != nil {
		if spec.MaxFailedIndexes != nil && failed > int(*spec.MaxFailedIndexes) {
			return failure(batchv1.JobReasonMaxFailedIndexesExceeded,
				"Job has exceeded the specified maximal number of failed indexes")
		}
		if failed > 0 && failed+s.completed.count() >= int(*spec.Completions) {
			return failure(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
		}
	}
	if message, ok := succeededBy(spec.SuccessPolicy, int(*spec.Completions), s.completed); ok {
		return newCondition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue, batchv1.JobReasonSuccessPolicy, message, now)
	}
	return nil
}

// fatalFailure returns the message about the first failed pod for which the pod failure policy lets the Job fail.
func (s *state) fatalFailure() string {
	if s.job.Spec.PodFailurePolicy == nil {
		return ""
	}
	for _, pod := range s.pods {
		if !s.hasFailed(pod) {
			continue
		}
		if r := judge(s.job.Spec.PodFailurePolicy, pod); r.message != "" {
			return r.message
		}
	}
	return ""
}

// restartedTooOften compares restarts of containers with the back-off limit, where the kubelet restarts them in place.
func (s *state) restartedTooOften() bool {
	if s.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var restarts int32
	for _, pod := range s.pods {
		if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodPending {
			continue
		}
		for i := range pod.Status.InitContainerStatuses {
			restarts += pod.Status.InitContainerStatuses[i].RestartCount
		}
		for i := range pod.Status.ContainerStatuses {
			restarts += pod.Status.ContainerStatuses[i].RestartCount
		}
	}
	return restarts >= max(1, *s.job.Spec.BackoffLimit)
}

// untilDeadline returns what is left of activeDeadlineSeconds; limited is false when there is none or while it does not
// run.
func untilDeadline(job *batchv1.Job, now time.Time) (left time.Duration, limited bool) {
	if job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil || isSuspended(job) {
		return 0, false
	}
	return time.Duration(*job.Spec.ActiveDeadlineSeconds)*time.Second - now.Sub(job.Status.StartTime.Time), true
}

// isComplete reports whether nothing is left to be done. Without completions the Job is a work queue: a pod that
// succeeds says that it is empty, and the others are awaited.
func (s *state) isComplete() bool {
	if s.job.Spec.Completions == nil {
		return s.succeeded > 0 && s.active == 0
	}
	return s.succeeded >= int(*s.job.Spec.Completions) && s.active == 0
}

// noteSuspension brings the condition Suspended and the start time in line with spec.suspend. It returns the event that
// goes with a change, or empty strings.
func noteSuspension(job *batchv1.Job, now time.Time) (reason, message string) {
	if isSuspended(job) {
		c := newCondition(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", now)
		if !setCondition(job, c) {
			return "", ""
		}
		// A Job that does not run may be given other scheduling directives (KEP-5440), and those are fixed once it has
		// a start time.
		job.Status.StartTime = nil
		return "Suspended", "Job suspended"
	}
	c := newCondition(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", now)
	if !setCondition(job, c) {
		return "", ""
	}
	// The active deadline counts from the last time that the Job began to run.
	job.Status.StartTime = &metav1.Time{Time: now}
	return "Resumed", "Job resumed"
}

// setCondition adds or changes a condition and reports whether it did. A condition that was never true is not added as
// false.
func setCondition(job *batchv1.Job, c *batchv1.JobCondition) bool {
	for i := range job.Status.Conditions {
		old := &job.Status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			return false
		}
		*old = *c
		return true
	}
	if c.Status == corev1.ConditionFalse {
		return false
	}
	job.Status.Conditions = append(job.Status.Conditions, *c)
	return true
}

func newCondition(
	conditionType batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string, now time.Time,
) *batchv1.JobCondition {
	return &batchv1.JobCondition{
		Type:               conditionType,
		Status:             status,
		Reason:             reason,
		Message:            message,
		LastProbeTime:      metav1.NewTime(now),
		LastTransitionTime: metav1.NewTime(now),
	}
}
