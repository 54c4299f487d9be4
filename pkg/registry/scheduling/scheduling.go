// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package scheduling lists the resources of scheduling.k8s.io; a new one is a folder here and a line in Group.
package scheduling

import (
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/apis/feature"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/scheduling/podgroup"
	"minik8s.io/minik8s/pkg/registry/scheduling/priorityclass"
	"minik8s.io/minik8s/pkg/registry/scheduling/workload"
)

// Group is scheduling.k8s.io. While the gate GenericWorkload is off, nothing is known of v1beta1.
func Group() registry.Group {
	g := registry.Group{
		Name:        schedulingv1.GroupName,
		AddToScheme: schedulingv1.AddToScheme,
		Versions:    []registry.Version{{Name: "v1", Resources: []registry.Descriptor{priorityclass.Resource}}},
	}
	if feature.Enabled(feature.GenericWorkload) {
		g.Versions = append(g.Versions, registry.Version{Name: "v1beta1", OffByDefault: true, Resources: []registry.Descriptor{
			workload.Resource,
			podgroup.Resource,
		}})
		builder := runtime.NewSchemeBuilder(schedulingv1.AddToScheme, schedulingv1beta1.AddToScheme)
		g.AddToScheme = builder.AddToScheme
	}
	return g
}
