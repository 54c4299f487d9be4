// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package node lists the resources of node.k8s.io; a new one is a folder here and a line in Group.
package node

import (
	nodev1 "k8s.io/api/node/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/node/runtimeclass"
)

// Group is node.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        nodev1.GroupName,
		AddToScheme: nodev1.AddToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{runtimeclass.Resource}}},
	}
}
