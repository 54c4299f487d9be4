// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setCondition writes a condition, with now if its status is another one than before.
func setCondition(status *autoscalingv2.HorizontalPodAutoscalerStatus, kind autoscalingv2.HorizontalPodAutoscalerConditionType, is bool, e explanation, now time.Time) {
	value := corev1.ConditionFalse
	if is {
		value = corev1.ConditionTrue
	}
	wanted := autoscalingv2.HorizontalPodAutoscalerCondition{
		Type: kind, Status: value, LastTransitionTime: metav1.NewTime(now), Reason: e.reason, Message: e.message,
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if c.Type != kind {
			continue
		}
		if c.Status == value {
			wanted.LastTransitionTime = c.LastTransitionTime
		}
		*c = wanted
		return
	}
	status.Conditions = append(status.Conditions, wanted)
}

// setCounts writes everything that is no condition; rescaled says that the number of pods was changed.
func setCounts(h *autoscalingv2.HorizontalPodAutoscaler, current, desired int32, metrics []autoscalingv2.MetricStatus, rescaled bool, now time.Time) {
	status := &h.Status
	status.ObservedGeneration = new(h.Generation)
	status.CurrentReplicas, status.DesiredReplicas = current, desired
	status.CurrentMetrics = metrics
	if rescaled {
		status.LastScaleTime = new(metav1.NewTime(now))
	}
}
