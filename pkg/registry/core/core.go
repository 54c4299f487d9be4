// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package core lists the resources of the core group (/api/v1); a new one is a folder here and a line in Group.
package core

import (
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/core/configmap"
)

// Group is the core group.
func Group() registry.Group {
	return registry.Group{
		Name:        corev1.GroupName,
		AddToScheme: corev1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			configmap.Resource,
		}}},
	}
}
