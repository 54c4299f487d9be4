// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package apps lists the resources of the apps group; a new one is a folder here and a line in Group.
package apps

import (
	appsv1 "k8s.io/api/apps/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/controllerrevision"
	"minik8s.io/minik8s/pkg/registry/apps/daemonset"
	"minik8s.io/minik8s/pkg/registry/apps/deployment"
	"minik8s.io/minik8s/pkg/registry/apps/replicaset"
	"minik8s.io/minik8s/pkg/registry/apps/statefulset"
)

// Group is apps.
func Group() registry.Group {
	return registry.Group{
		Name:        appsv1.GroupName,
		AddToScheme: appsv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			controllerrevision.Resource,
			daemonset.Resource,
			deployment.Resource,
			replicaset.Resource,
			statefulset.Resource,
		}}},
	}
}
