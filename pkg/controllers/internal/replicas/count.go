// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// burst is the largest number of pods created or deleted in one pass.
const burst = 500

// Step returns how many pods one pass creates or removes to get from active to wanted; at most one of them is not 0.
func Step(active, wanted int) (create, remove int) {
	return min(max(wanted-active, 0), burst), min(max(active-wanted, 0), burst)
}

// Counts are the numbers in the status of a set.
type Counts struct {
	// Replicas is the number of active pods, the following ones are of those that also carry all labels of the
	// template, are ready, and have been so for minReadySeconds.
	Replicas, FullyLabeled, Ready, Available int32
	// Terminating is the number of pods that were deleted but have not ended.
	Terminating int32
}

// Count counts active pods.
func Count(templateLabels map[string]string, active []*corev1.Pod, terminating int, minReadySeconds int32, now time.Time) Counts {
	counts := Counts{Replicas: int32(len(active)), Terminating: int32(terminating)}
	template := labels.Set(templateLabels).AsSelectorPreValidated()
	for _, pod := range active {
		if template.Matches(labels.Set(pod.Labels)) {
			counts.FullyLabeled++
		}
		if pods.IsReady(pod) {
			counts.Ready++
			if pods.IsAvailable(pod, minReadySeconds, now) {
				counts.Available++
			}
		}
	}
	return counts
}

// FailureReason is the reason of the condition ReplicaFailure of a set which could not be brought from active to wanted.
func FailureReason(active int32, wanted int) string {
	if int(active) > wanted {
		return pods.ReasonFailedDelete
	}
	return pods.ReasonFailedCreate
}

// WithFailure returns the conditions of a status after a pass: failure is added unless there is one already (isFailure
// tells), and without a failure the one from before is gone.
func WithFailure[C any](conditions []C, isFailure func(C) bool, failure *C) []C {
	conditions = slices.Clone(conditions)
	switch failed := slices.ContainsFunc(conditions, isFailure); {
	case failure != nil && !failed:
		return append(conditions, *failure)
	case failure == nil && failed:
		return slices.DeleteFunc(conditions, isFailure)
	}
	return conditions
}
