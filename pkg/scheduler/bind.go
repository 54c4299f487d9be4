// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/queue"
)

// bind makes the assumption true. It runs beside the scheduling cycles.
func (s *Scheduler) bind(ctx context.Context, state *framework.CycleState, pod *queue.Pod, assumed *framework.PodInfo, start time.Time) {
	node := assumed.Pod.Spec.NodeName
	status := s.profile.RunPreBind(ctx, state, assumed, node)
	rejectedBy, err := rejection(status, node)
	if status.IsSuccess() {
		err = s.writeBinding(ctx, assumed.Pod)
	}
	if err == nil {
		s.queue.Done(pod)
		s.metrics.attempt("scheduled", s.cfg.SchedulerName, s.cfg.Clock.Since(start))
		s.recorder.Eventf(assumed.Pod, nil, corev1.EventTypeNormal, "Scheduled", "Binding",
			"Successfully assigned %v/%v to %v", assumed.Pod.Namespace, assumed.Pod.Name, node)
		klog.FromContext(ctx).V(3).Info("Bound pod", "pod", klog.KObj(assumed.Pod), "node", node)
		return
	}
	s.profile.RunUnreserve(ctx, state, assumed, node)
	s.cache.Forget(assumed.Pod.UID)
	// Others may have been rejected for what this pod held. The event comes after
	// the pod is put back, because it must not wake the pod itself.
	defer s.queue.Move(ctx, framework.ClusterEvent{Resource: framework.AssignedPod, Action: framework.Delete}, assumed.Pod, nil)
	if ctx.Err() != nil {
		s.queue.Done(pod)
		return
	}
	s.metrics.attempt(result(rejectedBy), s.cfg.SchedulerName, s.cfg.Clock.Since(start))
	s.requeue(ctx, pod, nil, rejectedBy, err)
}

func (s *Scheduler) writeBinding(ctx context.Context, pod *corev1.Pod) error {
	// The UID keeps the binding off a new pod of the same name.
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: pod.Spec.NodeName},
	}
	if err := s.cfg.Client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("binding rejected: %w", err)
	}
	return nil
}
