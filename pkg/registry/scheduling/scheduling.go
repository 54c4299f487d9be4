// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package scheduling lists the resources of scheduling.k8s.io; a new one is a folder here and a line in Group.
package scheduling

import (
	schedulingv1 "k8s.io/api/scheduling/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/scheduling/priorityclass"
)

// Group is scheduling.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        schedulingv1.GroupName,
		AddToScheme: schedulingv1.AddToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{priorityclass.Resource}}},
	}
}
