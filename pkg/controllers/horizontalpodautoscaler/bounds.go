// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// course is what is to be done before any metric is looked at.
type course int

const (
	// byMetrics: metrics say how many pods there shall be.
	byMetrics course = iota
	// toBounds: the number of pods is outside of the bounds, whatever metrics say.
	toBounds
	// off: somebody scaled the workload to zero, which switches the autoscaler off.
	off
)

const (
	reasonAboveMaximum = "Current number of replicas above Spec.MaxReplicas"
	reasonBelowMinimum = "Current number of replicas below Spec.MinReplicas"
)

// courseFor returns what to do for a number of pods; with toBounds, which number it is to be and why.
func courseFor(h *autoscalingv2.HorizontalPodAutoscaler, current int32) (do course, replicas int32, reason string) {
	minimum := minimumOf(h)
	switch {
	case current == 0 && isScaledToZero(h) && (minimum != 0 || knowsWithoutPods(h)):
		return byMetrics, 0, ""
	case current == 0:
		return off, 0, ""
	case current > h.Spec.MaxReplicas:
		return toBounds, h.Spec.MaxReplicas, reasonAboveMaximum
	case current < minimum:
		return toBounds, minimum, reasonBelowMinimum
	}
	return byMetrics, 0, ""
}

// minimumOf returns the smallest number of pods.
func minimumOf(h *autoscalingv2.HorizontalPodAutoscaler) int32 {
	return ptr.Deref(h.Spec.MinReplicas, 1)
}

// knowsWithoutPods reports whether some metric has a value also while there are no pods.
func knowsWithoutPods(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	return slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	})
}

// isScaledToZero reports whether it was the autoscaler that scaled to zero (KEP-2021), and not somebody who wants it to rest.
func isScaledToZero(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	for _, c := range h.Status.Conditions {
		if c.Type == autoscalingv2.ScaledToZero {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// aim returns how many pods there shall be by what a metric asks for, and why, if that is another number than the current one.
func aim(h *autoscalingv2.HorizontalPodAutoscaler, chosen *proposal, current int32) (wanted int32, reason string) {
	metric := ""
	if chosen.replicas > 0 {
		wanted, metric = chosen.replicas, chosen.metric
	}
	switch {
	case wanted > current:
		return wanted, metric + " above target"
	case wanted < current:
		return wanted, "All metrics below target"
	case current == 0 && minimumOf(h) != 0:
		return wanted, reasonBelowMinimum
	}
	return wanted, ""
}
