// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodemetrics tells what nodes use (kubectl top node). Touch it when metrics-server's resource nodes changes.
package nodemetrics

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/metrics/internal/usage"
)

// Resource describes nodes of metrics.k8s.io.
var Resource = usage.Kind[*corev1.Node, *metricsv1beta1.NodeMetrics]{
	Kind:    metricsv1beta1.SchemeGroupVersion.WithKind("NodeMetrics"),
	Objects: corev1.Resource("nodes"), Figures: metricsv1beta1.Resource("nodemetrics"),
	Empty: func() *metricsv1beta1.NodeMetrics { return &metricsv1beta1.NodeMetrics{} },
	List:  list,
	Of: func(u registry.Usage, node *corev1.Node) (*metricsv1beta1.NodeMetrics, bool) {
		m, ok := u.Node(node.Name)
		return &m, ok
	},
	Row: row,
}.Resource()

func list(items []*metricsv1beta1.NodeMetrics) runtime.Object {
	l := &metricsv1beta1.NodeMetricsList{Items: make([]metricsv1beta1.NodeMetrics, len(items))}
	for i, m := range items {
		l.Items[i] = *m
	}
	return l
}

func row(m *metricsv1beta1.NodeMetrics) []any {
	return []any{m.Name, m.Usage.Cpu().String(), m.Usage.Memory().String(), m.Window.Duration.String()}
}
