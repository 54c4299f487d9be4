// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package autoscaling lists the resources of the autoscaling group; a new one is a folder here and a line in Group.
package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/autoscaling/horizontalpodautoscaler"
)

// Group is autoscaling. Its first version is the one that is stored.
func Group() registry.Group {
	return registry.Group{
		Name:        autoscalingv2.GroupName,
		AddToScheme: horizontalpodautoscaler.AddToScheme,
		Versions: []registry.Version{
			{Name: "v2", Resources: []registry.Descriptor{horizontalpodautoscaler.Resource}},
			{Name: "v1", Resources: []registry.Descriptor{horizontalpodautoscaler.V1}},
		},
	}
}
