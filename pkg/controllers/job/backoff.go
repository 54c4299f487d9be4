// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// A failed pod is replaced after a time that doubles with each failure in a row.
const (
	podDelay    = 10 * time.Second
	maxPodDelay = 10 * time.Minute
)

// failures are the failed pods of a Job since one succeeded.
type failures struct {
	count int
	last  time.Time
}

// after returns the failures once more pods have ended.
func (f failures) after(succeeded, failed []*corev1.Pod) failures {
	if len(succeeded) > 0 {
		f = failures{}
	}
	var lastSuccess time.Time
	for _, pod := range succeeded {
		if at := endOf(pod); at.After(lastSuccess) {
			lastSuccess = at
		}
	}
	newest := time.Time{}
	for _, pod := range failed {
		if at := endOf(pod); len(succeeded) == 0 || at.After(lastSuccess) {
			f.count++
			if at.After(newest) {
				newest = at
			}
		}
	}
	if !newest.IsZero() {
		f.last = newest
	}
	return f
}

// wait returns how long it is until a pod may be replaced.
func (f failures) wait(now time.Time) time.Duration {
	if f.count == 0 {
		return 0
	}
	delay := podDelay
	for i := 1; i < f.count && delay < maxPodDelay; i++ {
		delay = min(2*delay, maxPodDelay)
	}
	return max(0, delay-now.Sub(f.last))
}

// endOf returns when an ended pod ended: when its last container did; else when it ceased to be ready; else, for a pod
// whose node is gone, when it was deleted. A sidecar ends after the containers and counts with them.
func endOf(pod *corev1.Pod) time.Time {
	if end, ok := endOfContainers(pod); ok {
		return end
	}
	ready := pods.Condition(pod, corev1.PodReady)
	if ready != nil && ready.Status == corev1.ConditionFalse && !ready.LastTransitionTime.IsZero() {
		return ready.LastTransitionTime.Time
	}
	if pod.DeletionTimestamp != nil {
		grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
		return pod.DeletionTimestamp.Add(-grace)
	}
	return pod.CreationTimestamp.Time
}

// endOfContainers returns when the last container ended; ok is false unless all have.
func endOfContainers(pod *corev1.Pod) (end time.Time, ok bool) {
	sidecars := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecars[c.Name] = ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
	}
	statuses := pod.Status.ContainerStatuses
	for _, status := range pod.Status.InitContainerStatuses {
		if sidecars[status.Name] {
			statuses = append(slices.Clip(statuses), status)
		}
	}
	for i := range statuses {
		terminated := statuses[i].State.Terminated
		if terminated == nil || terminated.FinishedAt.IsZero() {
			return time.Time{}, false
		}
		if terminated.FinishedAt.After(end) {
			end = terminated.FinishedAt.Time
		}
	}
	return end, !end.IsZero()
}
