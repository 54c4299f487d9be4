// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package pods is what controllers know about pods: when one is ready, available or still counts, which one of several
// goes first, and how one is made from a template. Touch it when the meaning of such a word changes for all controllers.
package pods

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Condition returns the condition of the given type, or nil.
func Condition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// SetCondition enters a condition in place of the one of its type, if there is one, and reports a change. The time of transition moves
// with the status only.
func SetCondition(status *corev1.PodStatus, c corev1.PodCondition) bool {
	i := slices.IndexFunc(status.Conditions, func(old corev1.PodCondition) bool { return old.Type == c.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, c)
		return true
	}
	old := status.Conditions[i]
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	status.Conditions[i] = c
	return !equality.Semantic.DeepEqual(old, c)
}

// IsReady reports whether the Ready condition is true.
func IsReady(pod *corev1.Pod) bool {
	c := Condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// AvailableIn returns how long it takes from now until a ready pod has been ready for minReadySeconds. ok is false for a
// pod that is not ready.
func AvailableIn(pod *corev1.Pod, minReadySeconds int32, now time.Time) (wait time.Duration, ok bool) {
	c := Condition(pod, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return 0, false
	}
	if minReadySeconds == 0 {
		return 0, true
	}
	minimum := time.Duration(minReadySeconds) * time.Second
	if c.LastTransitionTime.IsZero() {
		return minimum, true
	}
	return max(0, c.LastTransitionTime.Add(minimum).Sub(now)), true
}

// IsAvailable reports whether the pod has been ready for minReadySeconds.
func IsAvailable(pod *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	wait, ok := AvailableIn(pod, minReadySeconds, now)
	return ok && wait == 0
}

// NextAvailable is the time until the next ready one of the pods has been ready for minReadySeconds; 0 when there is none to wait for.
func NextAvailable(pods []*corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	var next time.Duration
	for _, pod := range pods {
		if wait, ok := AvailableIn(pod, minReadySeconds, now); ok && wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// IsTerminal reports whether the pod has run to its end.
func IsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsActive reports whether the pod counts as a replica: it has not ended and nobody has deleted it.
func IsActive(pod *corev1.Pod) bool {
	return !IsTerminal(pod) && pod.DeletionTimestamp == nil
}

// IsTerminating reports whether the pod was deleted but has not ended yet.
func IsTerminating(pod *corev1.Pod) bool {
	return !IsTerminal(pod) && pod.DeletionTimestamp != nil
}

// Filter returns the pods that keep returns true for.
func Filter(pods []*corev1.Pod, keep func(*corev1.Pod) bool) []*corev1.Pod {
	var kept []*corev1.Pod
	for _, pod := range pods {
		if keep(pod) {
			kept = append(kept, pod)
		}
	}
	return kept
}
