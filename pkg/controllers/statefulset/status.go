// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// Status returns the status of a set with these pods. Those in leaving were deleted for the update a moment ago.
func Status(set *appsv1.StatefulSet, revisions Revisions, claimed, leaving []*corev1.Pod, now time.Time) appsv1.StatefulSetStatus {
	status := appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation,
		CurrentRevision:    revisions.Current.Name,
		UpdateRevision:     revisions.Update.Name,
		CollisionCount:     new(revisions.Collisions),
		Conditions:         set.Status.Conditions,
	}
	for _, pod := range claimed {
		if ordinalOf(pod) < 0 {
			continue
		}
		status.Replicas++
		if isReady(pod) {
			status.ReadyReplicas++
			if pods.IsAvailable(pod, set.Spec.MinReadySeconds, now) {
				status.AvailableReplicas++
			}
		}
		if isTerminating(pod) {
			continue
		}
		revision := pod.Labels[appsv1.StatefulSetRevisionLabel]
		if revision == revisions.Current.Name && !slices.Contains(leaving, pod) {
			status.CurrentReplicas++
		}
		if revision == revisions.Update.Name {
			status.UpdatedReplicas++
		}
	}
	// The update is over when there is nothing else left.
	if wanted := int32(replicasOf(set)); status.UpdatedReplicas == wanted && status.ReadyReplicas == wanted && status.Replicas == wanted {
		status.CurrentReplicas, status.CurrentRevision = status.UpdatedReplicas, status.UpdateRevision
	}
	return status
}
