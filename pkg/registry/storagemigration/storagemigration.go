// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package storagemigration lists the resources of storagemigration.k8s.io; a new one is a folder here and a line in Group.
package storagemigration

import (
	storagemigrationv1 "k8s.io/api/storagemigration/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/storagemigration/storageversionmigration"
)

// Group is storagemigration.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        storagemigrationv1.GroupName,
		AddToScheme: storagemigrationv1.AddToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{storageversionmigration.Resource}}},
	}
}
