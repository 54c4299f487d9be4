// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/internal/podstatus"
)

// maxNote is the longest note that events.k8s.io/v1 accepts, in bytes.
const maxNote = 1024

// requeue puts a pod back after a failure and says why in its status and in an event.
func (s *Scheduler) requeue(ctx context.Context, a *attempt, nomination *fwk.NominatingInfo, rejectedBy sets.Set[string], cause error) {
	if latest := s.report(ctx, a, nomination, cause); latest != nil {
		s.queue.Fail(ctx, a.pod, latest, rejectedBy)
	}
}

// report says in a pod's status and in an event why it was not placed, and returns the
// pod as it is now, which is to be put back. It is nil if the pod needs no node any more.
func (s *Scheduler) report(ctx context.Context, a *attempt, nomination *fwk.NominatingInfo, cause error) *corev1.Pod {
	logger, pod := klog.FromContext(ctx), a.pod
	reason := corev1.PodReasonSchedulerError
	if unschedulable(cause) {
		reason = corev1.PodReasonUnschedulable
		logger.V(2).Info("Unable to schedule pod; waiting", "pod", klog.KObj(pod.Pod), "reason", cause.Error())
	} else {
		logger.Error(cause, "Scheduling the pod failed; retrying", "pod", klog.KObj(pod.Pod))
	}

	latest, err := s.pods.Pods(pod.Pod.Namespace).Get(pod.Pod.Name)
	if err != nil || latest.UID != pod.Pod.UID || latest.Spec.NodeName != "" {
		// Deleted, or bound after all although the answer got lost.
		s.nominated.Remove(pod.Pod.UID)
		s.queue.Done(pod)
		return nil
	}
	update := podstatus.Update{Condition: &corev1.PodCondition{
		Type:               corev1.PodScheduled,
		Status:             corev1.ConditionFalse,
		Reason:             reason,
		Message:            cause.Error(),
		ObservedGeneration: latest.Generation,
		LastTransitionTime: metav1.NewTime(s.cfg.Clock.Now()),
	}}
	if nomination.Mode() == fwk.ModeOverride {
		update.Nomination = &nomination.NominatedNodeName
	}
	// Before the pod is put back, so that no other pod takes the room first.
	s.nominated.AddNominatedPod(logger, pod.Renew(latest), nomination)
	s.statuses.Write(latest, update)
	a.profile.Recorder.Eventf(latest, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", truncate(update.Condition.Message))
	return latest
}

func truncate(message string) string {
	const suffix = " ..."
	if len(message) <= maxNote {
		return message
	}
	return message[:maxNote-len(suffix)] + suffix
}
