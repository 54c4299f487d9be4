// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resourceslice serves ResourceSlices, in which drivers publish their devices. Touch it when a device may say
// something new; its folder has a file for slices, for devices and for what can be taken of their capacity.
package resourceslice

import (
	"context"
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/resource/device"
)

var docs = resourcev1.ResourceSliceSpec{}.SwaggerDoc()

// Resource describes resourceslices.
var Resource = &registry.Resource[*resourcev1.ResourceSlice]{
	Kind:          resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"),
	Name:          "resourceslices",
	ClusterScoped: true,
	New:           func() *resourcev1.ResourceSlice { return &resourcev1.ResourceSlice{} },
	NewList:       func() runtime.Object { return &resourcev1.ResourceSliceList{} },
	ReturnDeleted: true,
	Default: func(s *resourcev1.ResourceSlice) {
		for i := range s.Spec.Devices {
			for j := range s.Spec.Devices[i].Taints {
				device.SetTaintDefaults(&s.Spec.Devices[i].Taints[j])
			}
		}
	},
	Spec:             func(s *resourcev1.ResourceSlice) any { return s.Spec },
	PrepareForCreate: func(_ context.Context, s *resourcev1.ResourceSlice) { dropDisabled(&s.Spec) },
	PrepareForUpdate: func(_ context.Context, s, old *resourcev1.ResourceSlice) {
		// As upstream's, the generation counts what is dropped too.
		if !apiequality.Semantic.DeepEqual(s.Spec, old.Spec) {
			s.Generation = old.Generation + 1
		}
		dropDisabled(&s.Spec)
	},
	Validate: func(_ context.Context, s *resourcev1.ResourceSlice) field.ErrorList {
		return validate(&s.Spec, nil)
	},
	ValidateUpdate: func(_ context.Context, s, old *resourcev1.ResourceSlice) field.ErrorList {
		return validate(&s.Spec, &old.Spec)
	},
	Warnings: func(_ context.Context, s, _ *resourcev1.ResourceSlice) []string {
		if s.Spec.Driver == strings.ToLower(s.Spec.Driver) {
			return nil
		}
		return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", s.Spec.Driver)}
	},
	UnknownField: "field label not supported for " + resourcev1.SchemeGroupVersion.WithKind("ResourceSlice").String() + ": %s",
	Fields: registry.Fields[*resourcev1.ResourceSlice]{
		resourcev1.ResourceSliceSelectorNodeName: func(s *resourcev1.ResourceSlice) string { return ptr.Deref(s.Spec.NodeName, "") },
		resourcev1.ResourceSliceSelectorDriver:   func(s *resourcev1.ResourceSlice) string { return s.Spec.Driver },
		resourcev1.ResourceSliceSelectorPoolName: func(s *resourcev1.ResourceSlice) string { return s.Spec.Pool.Name },
	},
	Indexed: []string{resourcev1.ResourceSliceSelectorNodeName},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Node", "string", docs["nodeName"]),
		registry.Column("Driver", "string", docs["driver"]),
		registry.Column("Pool", "string", resourcev1.ResourcePool{}.SwaggerDoc()["name"]),
		registry.AgeColumn,
	},
	Row: func(s *resourcev1.ResourceSlice) []any {
		return []any{s.Name, ptr.Deref(s.Spec.NodeName, ""), s.Spec.Driver, s.Spec.Pool.Name, registry.Age(s.CreationTimestamp)}
	},
}

// dropDisabled takes away the fields whose gates are off in 1.37: types of partitions, skipped operations, compatibility
// groups, resources of the node, attributes that are lists.
func dropDisabled(s *resourcev1.ResourceSliceSpec) {
	s.PartitionTypeAttribute, s.SkipNodeOperations = nil, nil
	for i := range s.Devices {
		d := &s.Devices[i]
		d.NodeAllocatableResources = nil
		for j := range d.ConsumesCounters {
			d.ConsumesCounters[j].CompatibilityGroups = nil
		}
		for name, a := range d.Attributes {
			a.BoolValues, a.IntValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
			d.Attributes[name] = a
		}
	}
}
