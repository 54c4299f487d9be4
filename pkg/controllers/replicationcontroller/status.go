// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package replicationcontroller

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/controllers/internal/replicas"
)

// Status returns the status of a ReplicationController with these pods. scaleErr is what stopped the last attempt to create
// or delete pods; it becomes the condition ReplicaFailure.
func Status(rc *corev1.ReplicationController, counts replicas.Counts, scaleErr error, now time.Time) corev1.ReplicationControllerStatus {
	var failure *corev1.ReplicationControllerCondition
	if scaleErr != nil {
		failure = &corev1.ReplicationControllerCondition{
			Type:               corev1.ReplicationControllerReplicaFailure,
			Status:             corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now),
			Reason:             replicas.FailureReason(counts.Replicas, wanted(rc)),
			Message:            scaleErr.Error(),
		}
	}
	isFailure := func(c corev1.ReplicationControllerCondition) bool {
		return c.Type == corev1.ReplicationControllerReplicaFailure
	}
	return corev1.ReplicationControllerStatus{
		Replicas:             counts.Replicas,
		FullyLabeledReplicas: counts.FullyLabeled,
		ReadyReplicas:        counts.Ready,
		AvailableReplicas:    counts.Available,
		ObservedGeneration:   rc.Generation,
		Conditions:           replicas.WithFailure(rc.Status.Conditions, isFailure, failure),
	}
}
