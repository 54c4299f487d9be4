// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type workload = schedulingv1beta1.Workload

func template(name string) schedulingv1beta1.PodGroupTemplate {
	return schedulingv1beta1.PodGroupTemplate{
		Name:             name,
		SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}},
	}
}

func TestResource(t *testing.T) {
	first := func(w *workload) *schedulingv1beta1.PodGroupTemplate { return &w.Spec.PodGroupTemplates[0] }
	registrytest.Run(t, Resource, registrytest.Case[*workload]{
		AddToScheme: schedulingv1beta1.AddToScheme,
		Valid: func() *workload {
			return &workload{
				ObjectMeta: metav1.ObjectMeta{Name: "w"},
				Spec: schedulingv1beta1.WorkloadSpec{
					ControllerRef:     &schedulingv1beta1.TypedLocalObjectReference{APIGroup: "batch", Kind: "Job", Name: "j"},
					PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{template("driver"), template("workers")},
				},
			}
		},
		Update: func(w *workload) { first(w).SchedulingPolicy.Gang.MinCount = 3 },
		Invalid: []registrytest.Invalid[*workload]{
			{Name: "no templates", Mutate: func(w *workload) { w.Spec.PodGroupTemplates = nil }, Field: "spec"},
			{Name: "a tree, which is dropped, and nothing else", Mutate: func(w *workload) {
				w.Spec.PodGroupTemplates = nil
				w.Spec.CompositePodGroupTemplates = []schedulingv1beta1.CompositePodGroupTemplate{{Name: "c"}}
			}, Field: "spec"},
			{Name: "too many", Mutate: func(w *workload) {
				for name := range strings.SplitSeq("abcdefg", "") {
					w.Spec.PodGroupTemplates = append(w.Spec.PodGroupTemplates, template(name))
				}
			}, Field: "spec.podGroupTemplates"},
			{Name: "twice", Mutate: func(w *workload) { first(w).Name = "workers" }, Field: "spec.podGroupTemplates[1]"},
			{Name: "without a name", Mutate: func(w *workload) { first(w).Name = "" }, Field: "spec.podGroupTemplates[0].name"},
			{Name: "no label", Mutate: func(w *workload) { first(w).Name = "a.b" }, Field: "spec.podGroupTemplates[0].name"},
			{Name: "no policy", Mutate: func(w *workload) { first(w).SchedulingPolicy.Gang = nil }, Field: "spec.podGroupTemplates[0].schedulingPolicy"},
			{Name: "two policies", Mutate: func(w *workload) {
				first(w).SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
			}, Field: "spec.podGroupTemplates[0].schedulingPolicy"},
			{Name: "nobody needed", Mutate: func(w *workload) { first(w).SchedulingPolicy.Gang.MinCount = 0 }, Field: "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount"},
			{Name: "fewer than nobody", Mutate: func(w *workload) { first(w).SchedulingPolicy.Gang.MinCount = -1 }, Field: "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount"},
			{Name: "no mode", Mutate: func(w *workload) { first(w).DisruptionMode = &schedulingv1beta1.DisruptionMode{} }, Field: "spec.podGroupTemplates[0].disruptionMode"},
			{Name: "class", Mutate: func(w *workload) {
				for i := range w.Spec.PodGroupTemplates {
					w.Spec.PodGroupTemplates[i].PriorityClassName = "A"
				}
			}, Field: "spec.podGroupTemplates[0].priorityClassName"},
			{Name: "the system's priority", Mutate: func(w *workload) {
				for i := range w.Spec.PodGroupTemplates {
					w.Spec.PodGroupTemplates[i].Priority = new(int32(1_000_000_001))
				}
			}, Field: "spec.podGroupTemplates[0].priority"},
			{Name: "two priorities", Mutate: func(w *workload) { first(w).Priority = new(int32(1)) }, Field: "spec"},
			{Name: "two classes", Mutate: func(w *workload) { first(w).PriorityClassName = "a" }, Field: "spec"},
			{Name: "controller of no kind", Mutate: func(w *workload) { w.Spec.ControllerRef.Kind = "" }, Field: "spec.controllerRef.kind"},
			{Name: "controller's name", Mutate: func(w *workload) { w.Spec.ControllerRef.Name = "a/b" }, Field: "spec.controllerRef.name"},
			{Name: "controller's group", Mutate: func(w *workload) { w.Spec.ControllerRef.APIGroup = "A" }, Field: "spec.controllerRef.apiGroup"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*workload]{
			{Name: "controller", Mutate: func(w *workload) { w.Spec.ControllerRef.Name = "k" }, Field: "spec.controllerRef"},
			{Name: "one more", Mutate: func(w *workload) { w.Spec.PodGroupTemplates = append(w.Spec.PodGroupTemplates, template("more")) }, Field: "spec.podGroupTemplates[2]"},
			{Name: "one less", Mutate: func(w *workload) { w.Spec.PodGroupTemplates = w.Spec.PodGroupTemplates[:1] }, Field: "spec.podGroupTemplates"},
			{Name: "another policy", Mutate: func(w *workload) {
				first(w).SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
			}, Field: "spec.podGroupTemplates[0].schedulingPolicy.gang"},
			{Name: "mode", Mutate: func(w *workload) {
				first(w).DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
			}, Field: "spec.podGroupTemplates[0].disruptionMode"},
			{Name: "priority", Mutate: func(w *workload) {
				for i := range w.Spec.PodGroupTemplates {
					w.Spec.PodGroupTemplates[i].Priority = new(int32(1))
				}
			}, Field: "spec.podGroupTemplates[0].priority"},
		},
		Row: []any{"w"},
	})
}

func TestDropDisabled(t *testing.T) {
	full := func() schedulingv1beta1.WorkloadSpec {
		x := template("x")
		x.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{}
		x.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "c"}}
		x.PreemptionPolicy = new(schedulingv1beta1.PreemptNever)
		return schedulingv1beta1.WorkloadSpec{
			PodGroupTemplates:          []schedulingv1beta1.PodGroupTemplate{x},
			CompositePodGroupTemplates: []schedulingv1beta1.CompositePodGroupTemplate{{Name: "y"}},
		}
	}
	plain := schedulingv1beta1.WorkloadSpec{PodGroupTemplates: []schedulingv1beta1.PodGroupTemplate{template("x")}}
	for _, tc := range []struct {
		name      string
		old, want schedulingv1beta1.WorkloadSpec
	}{
		{"new", schedulingv1beta1.WorkloadSpec{}, plain},
		{"not used", plain, plain},
		{"used", full(), full()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := full()
			dropDisabled(&s, &tc.old)
			if diff := cmp.Diff(tc.want, s); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}
