// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podmetrics tells what pods use (kubectl top pod). Touch it when metrics-server's resource pods changes.
package podmetrics

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/metrics/internal/usage"
)

// Resource describes pods of metrics.k8s.io.
var Resource = usage.Kind[*corev1.Pod, *metricsv1beta1.PodMetrics]{
	Kind:    metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"),
	Objects: corev1.Resource("pods"), Figures: metricsv1beta1.Resource("podmetrics"), Namespaced: true,
	Empty: func() *metricsv1beta1.PodMetrics { return &metricsv1beta1.PodMetrics{} },
	List:  list,
	Runs:  func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning },
	// The node that a pod is bound to is asked: another one cannot tell of it.
	Of: func(u registry.Usage, pod *corev1.Pod) (*metricsv1beta1.PodMetrics, bool) {
		m, ok := u.Pod(pod.Spec.NodeName, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		return &m, ok
	},
	Row: row,
}.Resource()

func list(items []*metricsv1beta1.PodMetrics) runtime.Object {
	l := &metricsv1beta1.PodMetricsList{Items: make([]metricsv1beta1.PodMetrics, len(items))}
	for i, m := range items {
		l.Items[i] = *m
	}
	return l
}

// row has the sums over containers.
func row(m *metricsv1beta1.PodMetrics) []any {
	sum := corev1.ResourceList{}
	for i := range m.Containers {
		for name, used := range m.Containers[i].Usage {
			all := sum[name]
			all.Add(used)
			sum[name] = all
		}
	}
	return []any{m.Name, sum.Cpu().String(), sum.Memory().String(), m.Window.Duration.String()}
}
