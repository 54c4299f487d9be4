// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// customWindow is that of a custom metric which does not tell its own.
const customWindow = time.Minute

// resourceSamples takes one resource out of what metrics.k8s.io tells: of whole pods, all of whose containers have to be there, or
// of one container in each.
func resourceSamples(items []metricsv1beta1.PodMetrics, resource corev1.ResourceName, container string) samples {
	found := make(samples, len(items))
	for i := range items {
		pod := &items[i]
		if sum, ok := usageOf(pod.Containers, resource, container); ok {
			found[pod.Name] = sample{milli: sum, at: pod.Timestamp.Time, window: pod.Window.Duration}
		}
	}
	return found
}

func usageOf(containers []metricsv1beta1.ContainerMetrics, resource corev1.ResourceName, container string) (sum int64, ok bool) {
	for i := range containers {
		c := &containers[i]
		if container != "" && c.Name != container {
			continue
		}
		usage, measured := c.Usage[resource]
		if !measured {
			return 0, false
		}
		sum, ok = plus(sum, usage.MilliValue()), true
	}
	return sum, ok
}

// customSamples takes the values out of what custom.metrics.k8s.io tells of pods.
func customSamples(items []customv1beta2.MetricValue) samples {
	found := make(samples, len(items))
	for i := range items {
		m := &items[i]
		window := customWindow
		if m.WindowSeconds != nil {
			window = time.Duration(*m.WindowSeconds) * time.Second
		}
		found[m.DescribedObject.Name] = sample{milli: m.Value.MilliValue(), at: m.Timestamp.Time, window: window}
	}
	return found
}
