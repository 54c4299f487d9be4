// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics lists the resources of metrics.k8s.io: what nodes and pods use, as whoever measures them says. It is served only if
// somebody does. Answers, messages and columns are metrics-server's; touch it when those change.
package metrics

import (
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/metrics/nodemetrics"
	"minik8s.io/minik8s/pkg/registry/metrics/podmetrics"
)

// Group is metrics.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        metricsv1beta1.GroupName,
		AddToScheme: metricsv1beta1.AddToScheme,
		Versions: []registry.Version{{Name: "v1beta1", Resources: []registry.Descriptor{
			nodemetrics.Resource,
			podmetrics.Resource,
		}}},
	}
}
