// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podgroup serves PodGroups: pods that are scheduled together. Touch it when what is checked beside the tags of the type
// changes, or what kubectl prints of them.
package podgroup

import (
	"context"
	"slices"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes podgroups.
var Resource = &registry.Resource[*schedulingv1beta1.PodGroup]{
	Kind:                   schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"),
	Name:                   "podgroups",
	New:                    func() *schedulingv1beta1.PodGroup { return &schedulingv1beta1.PodGroup{} },
	NewList:                func() runtime.Object { return &schedulingv1beta1.PodGroupList{} },
	RequireResourceVersion: true,
	Default: func(g *schedulingv1beta1.PodGroup) {
		if g.Spec.DisruptionMode == nil {
			g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}
		}
	},
	PrepareForCreate: func(_ context.Context, g *schedulingv1beta1.PodGroup) {
		dropDisabled(&g.Spec, &schedulingv1beta1.PodGroupSpec{})
	},
	PrepareForUpdate: func(_ context.Context, g, old *schedulingv1beta1.PodGroup) { dropDisabled(&g.Spec, &old.Spec) },
	Status: &registry.Status[*schedulingv1beta1.PodGroup]{
		KeepMetadata: true,
		PrepareForUpdate: func(_ context.Context, g, old *schedulingv1beta1.PodGroup) {
			if len(old.Spec.ResourceClaims) == 0 { // DRAWorkloadResourceClaims
				g.Status.ResourceClaimStatuses = nil
			}
		},
		Validate: validateStatus,
	},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Policy", "string", schedulingv1beta1.PodGroupSpec{}.SwaggerDoc()["schedulingPolicy"]),
		registry.Column("Workload", "string", "Name of the referenced Workload object"),
		registry.Column("Status", "string", "Status of the PodGroup"),
		registry.AgeColumn,
	},
	Row: func(g *schedulingv1beta1.PodGroup) []any {
		policy, workload := "Basic", "<none>"
		if g.Spec.SchedulingPolicy.Gang != nil {
			policy = "Gang"
		}
		if ref := g.Spec.WorkloadRef; ref != nil {
			workload = ref.WorkloadName
		}
		return []any{g.Name, policy, workload, state(g.Status.Conditions), registry.Age(g.CreationTimestamp)}
	},
}

// dropDisabled clears the fields of gates that are off, unless old has them: TopologyAwareWorkloadScheduling,
// DRAWorkloadResourceClaims, PodGroupPreemptionPolicy and CompositePodGroup.
func dropDisabled(s, old *schedulingv1beta1.PodGroupSpec) {
	if old.SchedulingConstraints == nil {
		s.SchedulingConstraints = nil
	}
	if len(old.ResourceClaims) == 0 {
		s.ResourceClaims = nil
	}
	if old.PreemptionPolicy == nil {
		s.PreemptionPolicy = nil
	}
	if old.ParentCompositePodGroupName == nil {
		s.ParentCompositePodGroupName = nil
	}
}

// state sums conditions up in a word: why the group is disrupted, or else whether it has been scheduled.
func state(conditions []metav1.Condition) string {
	if c := meta.FindStatusCondition(conditions, schedulingv1beta1.DisruptionTarget); c != nil {
		return c.Reason
	}
	c := meta.FindStatusCondition(conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	switch {
	case c == nil:
		return "Pending"
	case c.Status == metav1.ConditionTrue:
		return "Scheduled"
	}
	return "Unschedulable"
}

func validateStatus(_ context.Context, g, _ *schedulingv1beta1.PodGroup) field.ErrorList {
	path := field.NewPath("status")
	errs := metav1validation.ValidateConditions(g.Status.Conditions, path.Child("conditions"))
	for i, s := range g.Status.ResourceClaimStatuses {
		if !slices.ContainsFunc(g.Spec.ResourceClaims, func(c schedulingv1beta1.PodGroupResourceClaim) bool { return c.Name == s.Name }) {
			errs = append(errs, field.Invalid(path.Child("resourceClaimStatuses").Index(i).Child("name"), s.Name,
				"must match the name of an entry in `spec.resourceClaims`"))
		}
	}
	return errs
}
