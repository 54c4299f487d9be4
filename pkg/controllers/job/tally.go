// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// maxUncounted bounds the UIDs in the status, which would take 20 kB, and with them the pods that one pass lets go.
const maxUncounted = 500

// tally is the first half of counting.
type tally struct {
	// release are the pods to let go once the status is written.
	release []*corev1.Pod
	// judged counts the failed pods among them that a rule of the failure policy matched, by its action.
	judged map[batchv1.PodFailurePolicyAction]int
	// changed is whether the status has to be written before.
	changed bool
	// truncated is whether there are more pods to count.
	truncated bool
}

// tally enters the pods that have ended into the status. end is the verdict, nil while the Job goes on: once a Job has
// failed, all pods that have not succeeded count as failed.
func (s *state) tally(end *batchv1.JobCondition) tally {
	t := tally{judged: map[batchv1.PodFailurePolicyAction]int{}}
	status := &s.job.Status
	uncounted := status.UncountedTerminatedPods
	newIndexes := 0
	lost := end != nil && end.Type != batchv1.JobSuccessCriteriaMet
	for _, pod := range s.pods {
		if !s.holds(pod) || !s.mayRelease(pod, end) {
			continue
		}
		t.release = append(t.release, pod)
		switch {
		case pod.Status.Phase == corev1.PodSucceeded && !s.uncountedFailed.Has(pod.UID):
			if isIndexed(s.job) {
				if s.isValid(pod) && !s.countedIndexes.has(indexOf(pod)) {
					newIndexes++
					t.changed = true
				}
			} else if !s.uncountedSucceeded.Has(pod.UID) {
				uncounted.Succeeded = append(uncounted.Succeeded, pod.UID)
				t.changed = true
			}
		case (lost || s.hasFailed(pod)) && !s.uncountedFailed.Has(pod.UID) && s.isValid(pod):
			r := judge(s.job.Spec.PodFailurePolicy, pod)
			if r.action != "" {
				t.judged[r.action]++
			}
			if r.counts() {
				uncounted.Failed = append(uncounted.Failed, pod.UID)
				t.changed = true
			}
		}
		if newIndexes+len(uncounted.Succeeded)+len(uncounted.Failed) >= maxUncounted {
			t.truncated = true
			break
		}
	}
	t.changed = s.noteIndexes() || t.changed
	return t
}

// mayRelease reports whether a held pod has served its purpose.
func (s *state) mayRelease(pod *corev1.Pod, end *batchv1.JobCondition) bool {
	if s.job.DeletionTimestamp != nil || end != nil || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if !s.hasFailed(pod) {
		return false
	}
	retained := s.retained[indexOf(pod)]
	return retained == nil || retained.UID != pod.UID
}

// noteIndexes writes what became of the indexes to the status and reports a change.
func (s *state) noteIndexes() bool {
	if !isIndexed(s.job) {
		return false
	}
	status := &s.job.Status
	completed := s.completed.String()
	var failed *string
	if s.job.Spec.BackoffLimitPerIndex != nil {
		failed = new(s.failedIndexes.String())
	}
	changed := completed != status.CompletedIndexes || !ptr.Equal(failed, status.FailedIndexes)
	status.CompletedIndexes, status.FailedIndexes = completed, failed
	status.Succeeded = int32(s.completed.count())
	return changed
}

// held returns the UIDs of the pods that wait to be counted.
func (s *state) held() sets.Set[types.UID] {
	held := make(sets.Set[types.UID], len(s.pods))
	for _, pod := range s.pods {
		if s.holds(pod) {
			held.Insert(pod.UID)
		}
	}
	return held
}

// settle is the second half of counting: it turns the UIDs of pods that were let go into counters and reports a change.
func settle(status *batchv1.JobStatus, held sets.Set[types.UID]) bool {
	uncounted := status.UncountedTerminatedPods
	move := func(uids []types.UID, counter *int32) []types.UID {
		left := slices.DeleteFunc(slices.Clone(uids), func(uid types.UID) bool { return !held.Has(uid) })
		*counter += int32(len(uids) - len(left))
		return left
	}
	before := len(uncounted.Succeeded) + len(uncounted.Failed)
	uncounted.Succeeded = move(uncounted.Succeeded, &status.Succeeded)
	uncounted.Failed = move(uncounted.Failed, &status.Failed)
	return len(uncounted.Succeeded)+len(uncounted.Failed) != before
}

// announce adds the condition that announces the end, before any pod is let go, and returns the one that will declare
// it. changed is whether the status has to be written.
func announce(job *batchv1.Job, end *batchv1.JobCondition, now time.Time) (final *batchv1.JobCondition, changed bool) {
	if end == nil {
		return nil, false
	}
	finalType := batchv1.JobFailed
	switch end.Type {
	case batchv1.JobFailureTarget:
	case batchv1.JobSuccessCriteriaMet:
		finalType = batchv1.JobComplete
	default:
		return end, false
	}
	changed = setCondition(job, end)
	return newCondition(finalType, corev1.ConditionTrue, end.Reason, end.Message, now), changed
}

// finish declares the Job finished, once all pods are counted and have ended, and reports whether it did.
func (s *state) finish(final *batchv1.JobCondition, now time.Time) bool {
	uncounted := s.job.Status.UncountedTerminatedPods
	if final == nil || len(uncounted.Succeeded)+len(uncounted.Failed) > 0 || s.terminating > 0 {
		return false
	}
	setCondition(s.job, newCondition(final.Type, final.Status, final.Reason, final.Message, now))
	if final.Type == batchv1.JobComplete {
		s.job.Status.CompletionTime = &final.LastTransitionTime
	}
	return true
}
