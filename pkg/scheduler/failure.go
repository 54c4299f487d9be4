// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/podstatus"
	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
)

// maxNote is the longest note that events.k8s.io/v1 accepts, in bytes.
const maxNote = 1024

// requeue puts a pod back after a failure and says why in its status and in an event.
func (s *Scheduler) requeue(ctx context.Context, pod *queue.Pod, nomination *framework.Nomination, rejectedBy sets.Set[string], cause error) {
	logger := klog.FromContext(ctx)
	reason := corev1.PodReasonSchedulerError
	var fit *framework.FitError
	if errors.As(cause, &fit) || errors.Is(cause, framework.ErrNoNodes) {
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
		return
	}
	if nomination != nil {
		// Before the pod is put back, so that no other pod takes the room first.
		s.nominated.Set(framework.NewPodInfo(latest), nomination.Node)
	} else if n := latest.Status.NominatedNodeName; n != "" {
		s.nominated.Set(framework.NewPodInfo(latest), n)
	}
	s.queue.Fail(ctx, pod, latest, rejectedBy)

	message := cause.Error()
	s.recorder.Eventf(latest, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", truncate(message))
	status := failedStatus(latest, nomination, reason, message, metav1.NewTime(s.cfg.Clock.Now()))
	if status == nil {
		return
	}
	if err := podstatus.Patch(ctx, s.cfg.Client, latest, status); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		logger.Error(err, "Updating the pod's condition failed", "pod", klog.KObj(latest))
	}
}

func truncate(message string) string {
	const suffix = " ..."
	if len(message) <= maxNote {
		return message
	}
	return message[:maxNote-len(suffix)] + suffix
}

// failedStatus returns the status with PodScheduled=False and the nomination, nil
// if the pod has all that already.
func failedStatus(pod *corev1.Pod, nomination *framework.Nomination, reason, message string, now metav1.Time) *corev1.PodStatus {
	want := corev1.PodCondition{
		Type:               corev1.PodScheduled,
		Status:             corev1.ConditionFalse,
		Reason:             reason,
		Message:            message,
		ObservedGeneration: pod.Generation,
		LastTransitionTime: now,
	}
	status := pod.Status.DeepCopy()
	changed := podstatus.SetCondition(status, want)
	if nomination != nil && status.NominatedNodeName != nomination.Node {
		status.NominatedNodeName, changed = nomination.Node, true
	}
	if !changed {
		return nil
	}
	return status
}
