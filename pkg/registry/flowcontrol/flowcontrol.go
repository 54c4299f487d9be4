// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package flowcontrol lists the resources of flowcontrol.apiserver.k8s.io, by which priority and fairness is configured; a
// new one is a folder here and a line in Group. What obeys them is pkg/apiserver/fairness.
package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/flowcontrol/flowschema"
	"minik8s.io/minik8s/pkg/registry/flowcontrol/prioritylevelconfiguration"
)

// Group is flowcontrol.apiserver.k8s.io.
func Group() registry.Group {
	return registry.Group{
		Name:        flowcontrolv1.GroupName,
		AddToScheme: flowcontrolv1.AddToScheme,
		Versions: []registry.Version{{Name: "v1", Resources: []registry.Descriptor{
			flowschema.Resource,
			prioritylevelconfiguration.Resource,
		}}},
	}
}
