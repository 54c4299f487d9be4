// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package coordination lists the resources of coordination.k8s.io; a new one is a folder here and a line in Group.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/coordination/lease"
)

// Group is coordination.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        coordinationv1.GroupName,
		AddToScheme: coordinationv1.AddToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{lease.Resource}}},
	}
}
