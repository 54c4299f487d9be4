// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/controllers/internal/replicas"
)

// Status returns the status of a ReplicaSet with these pods. scaleErr is what stopped the last attempt to create or delete
// pods; it becomes the condition ReplicaFailure.
func Status(rs *appsv1.ReplicaSet, counts replicas.Counts, scaleErr error, now time.Time) appsv1.ReplicaSetStatus {
	var failure *appsv1.ReplicaSetCondition
	if scaleErr != nil {
		failure = &appsv1.ReplicaSetCondition{
			Type:               appsv1.ReplicaSetReplicaFailure,
			Status:             corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now),
			Reason:             replicas.FailureReason(counts.Replicas, wanted(rs)),
			Message:            scaleErr.Error(),
		}
	}
	isFailure := func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure }
	return appsv1.ReplicaSetStatus{
		Replicas:             counts.Replicas,
		FullyLabeledReplicas: counts.FullyLabeled,
		ReadyReplicas:        counts.Ready,
		AvailableReplicas:    counts.Available,
		TerminatingReplicas:  new(counts.Terminating),
		ObservedGeneration:   rs.Generation,
		Conditions:           replicas.WithFailure(rs.Status.Conditions, isFailure, failure),
	}
}
