// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/controllers/pods"
)

// burst is the largest number of pods created or deleted in one pass.
const burst = 500

// Step returns how many pods one pass creates or removes to get from active to wanted; at most one of them is not 0.
func Step(active, wanted int) (create, remove int) {
	return min(max(wanted-active, 0), burst), min(max(active-wanted, 0), burst)
}

func replicas(rs *appsv1.ReplicaSet) int { return int(ptr.Deref(rs.Spec.Replicas, 1)) }

// Status returns the status of a ReplicaSet with these active pods and this number of terminating ones. scaleErr is what
// stopped the last attempt to create or delete pods; it becomes the condition ReplicaFailure.
func Status(rs *appsv1.ReplicaSet, active []*corev1.Pod, terminating int, scaleErr error, now time.Time) appsv1.ReplicaSetStatus {
	status := appsv1.ReplicaSetStatus{
		Replicas:            int32(len(active)),
		ObservedGeneration:  rs.Generation,
		TerminatingReplicas: ptr.To(int32(terminating)),
		Conditions:          slices.Clone(rs.Status.Conditions),
	}
	template := labels.Set(rs.Spec.Template.Labels).AsSelectorPreValidated()
	for _, pod := range active {
		if template.Matches(labels.Set(pod.Labels)) {
			status.FullyLabeledReplicas++
		}
		if pods.IsReady(pod) {
			status.ReadyReplicas++
			if pods.IsAvailable(pod, rs.Spec.MinReadySeconds, now) {
				status.AvailableReplicas++
			}
		}
	}
	isFailure := func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure }
	switch failed := slices.ContainsFunc(status.Conditions, isFailure); {
	case scaleErr != nil && !failed:
		reason := pods.ReasonFailedCreate
		if len(active) > replicas(rs) {
			reason = pods.ReasonFailedDelete
		}
		status.Conditions = append(status.Conditions, appsv1.ReplicaSetCondition{
			Type:               appsv1.ReplicaSetReplicaFailure,
			Status:             corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now),
			Reason:             reason,
			Message:            scaleErr.Error(),
		})
	case scaleErr == nil && failed:
		status.Conditions = slices.DeleteFunc(status.Conditions, isFailure)
	}
	return status
}
