// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the conditions Progressing and Available.
const (
	ReasonReplicaSetUpdated    = "ReplicaSetUpdated"
	ReasonReplicaSetCreateErr  = "ReplicaSetCreateError"
	ReasonNewReplicaSet        = "NewReplicaSetCreated"
	ReasonFoundReplicaSet      = "FoundNewReplicaSet"
	ReasonReplicaSetAvailable  = "NewReplicaSetAvailable"
	ReasonTimedOut             = "ProgressDeadlineExceeded"
	ReasonPaused               = "DeploymentPaused"
	ReasonResumed              = "DeploymentResumed"
	ReasonMinimumAvailable     = "MinimumReplicasAvailable"
	ReasonMinimumNotAvailable  = "MinimumReplicasUnavailable"
	minimumAvailableMessage    = "Deployment has minimum availability."
	minimumNotAvailableMessage = "Deployment does not have minimum availability."
)

// hasDeadline reports whether progress is watched at all.
func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

func condition(status *appsv1.DeploymentStatus, conditionType appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == conditionType {
			return &status.Conditions[i]
		}
	}
	return nil
}

// setCondition adds or replaces a condition. One that already has this status and reason is left alone; the transition
// time only moves with the status.
func setCondition(status *appsv1.DeploymentStatus, c appsv1.DeploymentCondition) {
	old := condition(status, c.Type)
	if old != nil && old.Status == c.Status && old.Reason == c.Reason {
		return
	}
	if old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	removeCondition(status, c.Type)
	status.Conditions = append(status.Conditions, c)
}

func removeCondition(status *appsv1.DeploymentStatus, conditionType appsv1.DeploymentConditionType) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == conditionType })
}

func newCondition(conditionType appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{
		Type:               conditionType,
		Status:             status,
		LastUpdateTime:     metav1.NewTime(now),
		LastTransitionTime: metav1.NewTime(now),
		Reason:             reason,
		Message:            message,
	}
}

// pausedStatus is the status after a look at whether the Deployment was paused or resumed, which stops and restarts the
// clock of the progress deadline. A timeout that was reported stays.
func pausedStatus(d *appsv1.Deployment, now time.Time) appsv1.DeploymentStatus {
	status := *d.Status.DeepCopy()
	if !hasDeadline(d) {
		return status
	}
	current := condition(&status, appsv1.DeploymentProgressing)
	if current != nil && current.Reason == ReasonTimedOut {
		return status
	}
	wasPaused := current != nil && current.Reason == ReasonPaused
	switch {
	case d.Spec.Paused && !wasPaused:
		setCondition(&status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, ReasonPaused, "Deployment is paused", now))
	case !d.Spec.Paused && wasPaused:
		setCondition(&status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, ReasonResumed, "Deployment is resumed", now))
	}
	return status
}

// countStatus sums up the ReplicaSets and judges availability; progress is left as it is.
func countStatus(d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet, now time.Time) appsv1.DeploymentStatus {
	all := append(slices.Clone(old), newRS)
	status := appsv1.DeploymentStatus{
		ObservedGeneration:  d.Generation,
		Replicas:            sum(all, actual),
		UpdatedReplicas:     sum([]*appsv1.ReplicaSet{newRS}, actual),
		ReadyReplicas:       sum(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.ReadyReplicas }),
		AvailableReplicas:   sum(all, available),
		UnavailableReplicas: max(0, sum(all, size)-sum(all, available)),
		CollisionCount:      d.Status.CollisionCount,
		TerminatingReplicas: terminating(all),
		Conditions:          slices.Clone(d.Status.Conditions),
	}
	if status.AvailableReplicas >= replicas(d)-maxUnavailable(d) {
		setCondition(&status, newCondition(appsv1.DeploymentAvailable, corev1.ConditionTrue, ReasonMinimumAvailable, minimumAvailableMessage, now))
	} else {
		setCondition(&status, newCondition(appsv1.DeploymentAvailable, corev1.ConditionFalse, ReasonMinimumNotAvailable, minimumNotAvailableMessage, now))
	}
	return status
}

// terminating sums up the terminating pods; it is unknown (nil) if a ReplicaSet's controller has not counted them. A ReplicaSet that
// no controller has seen yet has none.
func terminating(all []*appsv1.ReplicaSet) *int32 {
	total := int32(0)
	for _, rs := range all {
		switch {
		case rs == nil, rs.Status.ObservedGeneration == 0 && rs.Status.TerminatingReplicas == nil:
		case rs.Status.TerminatingReplicas == nil:
			return nil
		default:
			total += *rs.Status.TerminatingReplicas
		}
	}
	return new(total)
}

// isComplete reports whether all replicas are of the new template, available, and nothing else runs.
func isComplete(d *appsv1.Deployment, status *appsv1.DeploymentStatus) bool {
	return status.UpdatedReplicas == replicas(d) &&
		status.Replicas == replicas(d) &&
		status.AvailableReplicas == replicas(d) &&
		status.ObservedGeneration >= d.Generation
}

// isProgressing compares two consecutive states.
func isProgressing(before, after *appsv1.DeploymentStatus) bool {
	return after.UpdatedReplicas > before.UpdatedReplicas ||
		after.Replicas-after.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		after.ReadyReplicas > before.ReadyReplicas ||
		after.AvailableReplicas > before.AvailableReplicas
}

// isTimedOut reports whether the last sign of progress is older than the deadline.
func isTimedOut(d *appsv1.Deployment, status *appsv1.DeploymentStatus, now time.Time) bool {
	c := condition(status, appsv1.DeploymentProgressing)
	switch {
	case c == nil, c.Reason == ReasonReplicaSetAvailable:
		return false
	case c.Reason == ReasonTimedOut:
		return true
	}
	return c.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second).Before(now)
}

// rolloutStatus is the status during a rollout, with progress judged. recheck is when the deadline has to be looked at
// again though nothing happens; 0 means never.
func rolloutStatus(d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet, now time.Time) (status appsv1.DeploymentStatus, recheck time.Duration) {
	status = countStatus(d, newRS, old, now)
	if !hasDeadline(d) {
		removeCondition(&status, appsv1.DeploymentProgressing)
	}
	current := condition(&d.Status, appsv1.DeploymentProgressing)
	// A finished rollout is not judged again when pods come and go later.
	finished := status.Replicas == status.UpdatedReplicas && current != nil && current.Reason == ReasonReplicaSetAvailable
	if hasDeadline(d) && !finished {
		judgeProgress(d, newRS, current, &status, now)
	}
	if failure := replicaFailure(newRS, old); failure != nil {
		setCondition(&status, *failure)
	} else {
		removeCondition(&status, appsv1.DeploymentReplicaFailure)
	}

	c := condition(&status, appsv1.DeploymentProgressing)
	if !hasDeadline(d) || c == nil || isComplete(d, &status) || c.Reason == ReasonTimedOut || c.Reason == ReasonReplicaSetAvailable {
		return status, 0
	}
	deadline := c.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
	// Times in conditions are whole seconds, hence the extra one.
	return status, max(0, deadline.Sub(now)) + time.Second
}

func judgeProgress(d *appsv1.Deployment, newRS *appsv1.ReplicaSet, current *appsv1.DeploymentCondition, status *appsv1.DeploymentStatus, now time.Time) {
	subject := fmt.Sprintf("Deployment %q", d.Name)
	if newRS != nil {
		subject = fmt.Sprintf("ReplicaSet %q", newRS.Name)
	}
	switch {
	case isComplete(d, status):
		setCondition(status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, ReasonReplicaSetAvailable, subject+" has successfully progressed.", now))
	case isProgressing(&d.Status, status):
		c := newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, ReasonReplicaSetUpdated, subject+" is progressing.", now)
		if current != nil && current.Status == corev1.ConditionTrue {
			c.LastTransitionTime = current.LastTransitionTime
		}
		// Each bit of progress moves the update time, even with the same reason: the deadline counts from it.
		removeCondition(status, appsv1.DeploymentProgressing)
		status.Conditions = append(status.Conditions, c)
	case isTimedOut(d, status, now):
		setCondition(status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, ReasonTimedOut, subject+" has timed out progressing.", now))
	}
}

// replicaFailure turns the failure condition of a ReplicaSet, the new one first, into that of the Deployment.
func replicaFailure(newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) *appsv1.DeploymentCondition {
	for _, rs := range append([]*appsv1.ReplicaSet{newRS}, old...) {
		if rs == nil {
			continue
		}
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				return &appsv1.DeploymentCondition{
					Type:               appsv1.DeploymentReplicaFailure,
					Status:             c.Status,
					LastUpdateTime:     c.LastTransitionTime,
					LastTransitionTime: c.LastTransitionTime,
					Reason:             c.Reason,
					Message:            c.Message,
				}
			}
		}
	}
	return nil
}
