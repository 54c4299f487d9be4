// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload serves Workloads: the templates of the groups in which pods are scheduled. Touch it when what all templates of
// one must have in common changes; most of their rules are tags of the type.
package workload

import (
	"context"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes workloads.
var Resource = &registry.Resource[*schedulingv1beta1.Workload]{
	Kind:                   schedulingv1beta1.SchemeGroupVersion.WithKind("Workload"),
	Name:                   "workloads",
	New:                    func() *schedulingv1beta1.Workload { return &schedulingv1beta1.Workload{} },
	NewList:                func() runtime.Object { return &schedulingv1beta1.WorkloadList{} },
	RequireResourceVersion: true,
	PrepareForCreate: func(_ context.Context, w *schedulingv1beta1.Workload) {
		dropDisabled(&w.Spec, &schedulingv1beta1.WorkloadSpec{})
	},
	PrepareForUpdate: func(_ context.Context, w, old *schedulingv1beta1.Workload) { dropDisabled(&w.Spec, &old.Spec) },
	Validate:         func(_ context.Context, w *schedulingv1beta1.Workload) field.ErrorList { return validate(&w.Spec) },
	Columns:          []metav1.TableColumnDefinition{registry.NameColumn, registry.AgeColumn},
	Row: func(w *schedulingv1beta1.Workload) []any {
		return []any{w.Name, registry.Age(w.CreationTimestamp)}
	},
}

// dropDisabled clears the fields of gates that are off, unless old has them: CompositePodGroup, TopologyAwareWorkloadScheduling,
// DRAWorkloadResourceClaims and PodGroupPreemptionPolicy. A tree that old has is left alone; its tags refuse every change.
func dropDisabled(s, old *schedulingv1beta1.WorkloadSpec) {
	if len(old.CompositePodGroupTemplates) == 0 {
		s.CompositePodGroupTemplates = nil
	}
	for i := range s.PodGroupTemplates {
		t, before := &s.PodGroupTemplates[i], schedulingv1beta1.PodGroupTemplate{}
		if i < len(old.PodGroupTemplates) {
			before = old.PodGroupTemplates[i]
		}
		if before.SchedulingConstraints == nil {
			t.SchedulingConstraints = nil
		}
		if len(before.ResourceClaims) == 0 {
			t.ResourceClaims = nil
		}
		if before.PreemptionPolicy == nil {
			t.PreemptionPolicy = nil
		}
	}
}

// validate checks that all templates are equally important. What rules a tree of templates has is not written: there are none here.
func validate(s *schedulingv1beta1.WorkloadSpec) field.ErrorList {
	for i := range s.PodGroupTemplates {
		t, first := &s.PodGroupTemplates[i], &s.PodGroupTemplates[0]
		if t.PriorityClassName != first.PriorityClassName || !apiequality.Semantic.DeepEqual(t.Priority, first.Priority) {
			return field.ErrorList{field.Invalid(field.NewPath("spec"), nil, "detected multiple priority configurations")}
		}
	}
	return nil
}
