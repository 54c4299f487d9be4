// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"fmt"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"minik8s.io/minik8s/pkg/registry"
)

// shownMetrics is how many metrics a row has room for.
const shownMetrics = 2

func row(h *autoscalingv2.HorizontalPodAutoscaler) []any {
	minPods := "<unset>"
	if n := h.Spec.MinReplicas; n != nil {
		minPods = strconv.Itoa(int(*n))
	}
	ref := &h.Spec.ScaleTargetRef
	return []any{
		h.Name, ref.Kind + "/" + ref.Name, targets(h.Spec.Metrics, h.Status.CurrentMetrics), minPods,
		int64(h.Spec.MaxReplicas), int64(h.Status.CurrentReplicas), registry.Age(h.CreationTimestamp),
	}
}

func targets(specs []autoscalingv2.MetricSpec, statuses []autoscalingv2.MetricStatus) string {
	if len(specs) == 0 {
		return "<none>"
	}
	var shown []string
	for i := range specs[:min(len(specs), shownMetrics)] {
		var status autoscalingv2.MetricStatus
		if i < len(statuses) {
			status = statuses[i]
		}
		shown = append(shown, target(&specs[i], &status))
	}
	text := strings.Join(shown, ", ")
	if more := len(specs) - shownMetrics; more > 0 {
		return fmt.Sprintf("%s + %d more...", text, more)
	}
	return text
}

// target is the value of a metric beside the one wanted.
func target(spec *autoscalingv2.MetricSpec, status *autoscalingv2.MetricStatus) string {
	switch spec.Type {
	case autoscalingv2.ExternalMetricSourceType:
		var now *autoscalingv2.MetricValueStatus
		if status.External != nil {
			now = &status.External.Current
		}
		return value(now, &spec.External.Target)
	case autoscalingv2.ObjectMetricSourceType:
		var now *autoscalingv2.MetricValueStatus
		if status.Object != nil {
			now = &status.Object.Current
		}
		return value(now, &spec.Object.Target)
	case autoscalingv2.PodsMetricSourceType:
		now := unknown
		if status.Pods != nil {
			now = status.Pods.Current.AverageValue.String()
		}
		return now + "/" + spec.Pods.Target.AverageValue.String()
	case autoscalingv2.ResourceMetricSourceType:
		var now *autoscalingv2.MetricValueStatus
		if status.Resource != nil {
			now = &status.Resource.Current
		}
		return fmt.Sprintf("%s: %s", spec.Resource.Name, use(now, &spec.Resource.Target))
	case autoscalingv2.ContainerResourceMetricSourceType:
		var now *autoscalingv2.MetricValueStatus
		if status.ContainerResource != nil {
			now = &status.ContainerResource.Current
		}
		return fmt.Sprintf("%s: %s", spec.ContainerResource.Name, use(now, &spec.ContainerResource.Target))
	}
	return "<unknown type>"
}

const unknown = "<unknown>"

// value shows a metric that is a number, of everything or of each pod.
func value(now *autoscalingv2.MetricValueStatus, want *autoscalingv2.MetricTarget) string {
	current := unknown
	if want.AverageValue != nil {
		if now != nil && now.AverageValue != nil {
			current = now.AverageValue.String()
		}
		return fmt.Sprintf("%s/%s (avg)", current, want.AverageValue)
	}
	if now != nil {
		current = now.Value.String()
	}
	return current + "/" + want.Value.String()
}

// use shows how much of a resource is used, as an amount or as a part of what is requested.
func use(now *autoscalingv2.MetricValueStatus, want *autoscalingv2.MetricTarget) string {
	current := unknown
	if want.AverageValue != nil {
		if now != nil {
			current = now.AverageValue.String()
		}
		return current + "/" + want.AverageValue.String()
	}
	if now != nil && now.AverageUtilization != nil {
		current = fmt.Sprintf("%d%%", *now.AverageUtilization)
	}
	wanted := "<auto>"
	if want.AverageUtilization != nil {
		wanted = fmt.Sprintf("%d%%", *want.AverageUtilization)
	}
	return current + "/" + wanted
}
