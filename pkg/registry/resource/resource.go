// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resource lists the resources of the resource.k8s.io group, by which pods get devices (dynamic resource
// allocation); a new one is a folder here and a line in Group.
package resource

import (
	resourcev1 "k8s.io/api/resource/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/resource/deviceclass"
	"minik8s.io/minik8s/pkg/registry/resource/devicetaintrule"
	"minik8s.io/minik8s/pkg/registry/resource/resourceclaim"
	"minik8s.io/minik8s/pkg/registry/resource/resourceclaimtemplate"
	"minik8s.io/minik8s/pkg/registry/resource/resourceslice"
)

// Group is resource.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        resourcev1.GroupName,
		AddToScheme: resourcev1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			deviceclass.Resource,
			devicetaintrule.Resource,
			resourceclaim.Resource,
			resourceclaimtemplate.Resource,
			resourceslice.Resource,
		}}},
	}
}
