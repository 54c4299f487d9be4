// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"math"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// memory is what a Reconciler remembers of a Job from pass to pass. It is lost with the process: then failed pods are
// replaced sooner.
type memory struct {
	uid      types.UID
	failures failures
	// released are the pods that this process let go and that the cache may still have as they were.
	released sets.Set[types.UID]
}

// state is what a pass decides on. A pod is held as long as it has the tracking finalizer: it is gone from the API only
// after it was counted. Counting takes two steps, so that a crash neither forgets a pod nor counts it twice: its UID is
// written to status.uncountedTerminatedPods, then it is let go, then its UID becomes one more in the counter. Pods that
// succeeded at an index need no UID, for the index is in status.completedIndexes (KEP-2307).
type state struct {
	job *batchv1.Job
	// pods are all pods of the Job, those of an Indexed Job in order of their index. They belong to the cache.
	pods []*corev1.Pod
	// live are the pods that have not ended and that nobody has deleted.
	live []*corev1.Pod
	// active, ready and terminating are the numbers of live pods, of the ready ones among them, and of those that were
	// deleted and have not ended. They follow what the pass does.
	active, ready, terminating int32
	// succeeded and failed count all pods (of an Indexed Job: the indexes that succeeded), whether in the status or
	// not.
	succeeded, failed int
	// completed are the indexes that succeeded, countedIndexes those among them which the status has already, and
	// failedIndexes those that ran out of tries.
	completed, countedIndexes, failedIndexes indexes
	// uncountedSucceeded and uncountedFailed are the pods in status.uncountedTerminatedPods at the beginning.
	uncountedSucceeded, uncountedFailed sets.Set[types.UID]
	// released is the set in memory.
	released sets.Set[types.UID]
	// retained are, by index, failed pods that are held until they are replaced, because the replacement inherits the
	// number of failures from them. It is used with backoffLimitPerIndex only.
	retained map[int]*corev1.Pod
	failures failures
	// before is what the status counts at the beginning.
	before counted
	// did is what the pass does with pods, late the error that it does not end with because a deadline is near.
	did  action
	late error
}

// observe returns the state of a Job that has these pods.
func observe(job *batchv1.Job, all []*corev1.Pod, m *memory) *state {
	if job.Status.UncountedTerminatedPods == nil {
		job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	uncounted := job.Status.UncountedTerminatedPods
	s := &state{
		job:                job,
		pods:               all,
		uncountedSucceeded: sets.New(uncounted.Succeeded...),
		uncountedFailed:    sets.New(uncounted.Failed...),
		released:           m.released,
		before:             countedIn(job),
		did:                reconciling,
	}
	if isIndexed(job) {
		s.pods = sortedByIndex(all)
	}
	for _, pod := range s.pods {
		if pods.IsTerminating(pod) {
			s.terminating++
		}
		if pods.IsActive(pod) {
			s.live = append(s.live, pod)
			s.active++
			if pods.IsReady(pod) {
				s.ready++
			}
		}
	}
	s.count(m)
	return s
}

// count fills in what depends on the pods that have ended.
func (s *state) count(m *memory) {
	var succeeded, failed []*corev1.Pod
	counted := 0
	for _, pod := range s.pods {
		if !s.holds(pod) || !s.isValid(pod) {
			continue
		}
		if pod.Status.Phase == corev1.PodSucceeded && !s.uncountedSucceeded.Has(pod.UID) {
			succeeded = append(succeeded, pod)
		}
		if s.hasFailed(pod) && !s.uncountedFailed.Has(pod.UID) {
			failed = append(failed, pod)
			if judge(s.job.Spec.PodFailurePolicy, pod).counts() {
				counted++
			}
		}
	}
	s.failures = m.failures.after(succeeded, failed)
	s.failed = int(s.job.Status.Failed) + len(s.uncountedFailed) + counted
	if !isIndexed(s.job) {
		s.succeeded = int(s.job.Status.Succeeded) + len(s.uncountedSucceeded) + len(succeeded)
		return
	}
	s.countIndexes()
	s.succeeded = s.completed.count()
}

// countIndexes fills in what only Indexed Jobs have.
func (s *state) countIndexes() {
	completions := int(*s.job.Spec.Completions)
	s.countedIndexes = parseIndexes(s.job.Status.CompletedIndexes, completions)
	if s.job.Status.FailedIndexes != nil {
		s.failedIndexes = parseIndexes(*s.job.Status.FailedIndexes, completions)
	}
	var completed, failed []int
	for _, pod := range s.pods {
		if !hasFinalizer(pod) || !s.isValid(pod) {
			continue
		}
		if pod.Status.Phase == corev1.PodSucceeded {
			completed = append(completed, indexOf(pod))
		}
		if s.job.Spec.BackoffLimitPerIndex != nil && s.failsIndex(pod) {
			failed = append(failed, indexOf(pod))
		}
	}
	s.completed = s.countedIndexes.with(completed)
	s.failedIndexes = s.failedIndexes.with(failed)
	if s.job.Spec.BackoffLimitPerIndex != nil {
		s.retained = s.toRetain()
	}
}

// toRetain chooses, for each index that waits for another try, the pod with the most failures, or of several the one
// that ended last.
func (s *state) toRetain() map[int]*corev1.Pod {
	settled := s.completed.union(s.failedIndexes).union(indexesOf(s.live))
	retained := map[int]*corev1.Pod{}
	for _, pod := range s.pods {
		if !s.holds(pod) || !s.isValid(pod) || !s.hasFailed(pod) || settled.has(indexOf(pod)) {
			continue
		}
		other := retained[indexOf(pod)]
		if other == nil || triesOf(other) <= triesOf(pod) && !endOf(pod).Before(endOf(other)) {
			retained[indexOf(pod)] = pod
		}
	}
	return retained
}

// failsIndex reports whether the failure of a pod was the last one that its index had left.
func (s *state) failsIndex(pod *corev1.Pod) bool {
	if !s.hasFailed(pod) {
		return false
	}
	r := judge(s.job.Spec.PodFailurePolicy, pod)
	return r.action == batchv1.PodFailurePolicyActionFailIndex ||
		r.counts() && numberIn(pod, batchv1.JobIndexFailureCountAnnotation) >= *s.job.Spec.BackoffLimitPerIndex
}

// hasFailed reports whether the pod counts as failed. A pod that was deleted does too, because it might never get to
// say so, unless the Job waits for that.
func (s *state) hasFailed(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return !replacesOnlyFailed(s.job) && pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded
}

// holds reports whether the pod waits to be counted.
func (s *state) holds(pod *corev1.Pod) bool { return hasFinalizer(pod) && !s.released.Has(pod.UID) }

// isValid reports whether the pod counts at all: one of an Indexed Job needs an index below completions.
func (s *state) isValid(pod *corev1.Pod) bool {
	if !isIndexed(s.job) {
		return true
	}
	i := indexOf(pod)
	return i != noIndex && i < int(*s.job.Spec.Completions)
}

func sortedByIndex(list []*corev1.Pod) []*corev1.Pod {
	byIndex := make(map[types.UID]int, len(list))
	for _, pod := range list {
		byIndex[pod.UID] = indexOf(pod)
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b *corev1.Pod) int { return byIndex[a.UID] - byIndex[b.UID] })
	return sorted
}

// triesOf returns how many pods failed at the index of this one before it, whether they count or not.
func triesOf(pod *corev1.Pod) int32 {
	return numberIn(pod, batchv1.JobIndexFailureCountAnnotation) +
		numberIn(pod, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// numberIn returns the number in an annotation; 0 when there is none or when a user has put something else there.
func numberIn(pod *corev1.Pod, annotation string) int32 {
	n, err := strconv.Atoi(pod.Annotations[annotation])
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}
