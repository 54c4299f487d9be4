// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package discovery lists the resources of discovery.k8s.io; a new one is a folder here and a line in Group.
package discovery

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/discovery/endpointslice"
)

// Group is discovery.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        discoveryv1.GroupName,
		AddToScheme: discoveryv1.AddToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{endpointslice.Resource}}},
	}
}
