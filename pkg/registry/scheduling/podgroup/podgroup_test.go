// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/registrytest"
)

type podGroup = schedulingv1beta1.PodGroup

func TestResource(t *testing.T) {
	registrytest.Run(t, Resource, registrytest.Case[*podGroup]{
		AddToScheme: schedulingv1beta1.AddToScheme,
		Valid: func() *podGroup {
			return &podGroup{
				ObjectMeta: metav1.ObjectMeta{Name: "g"},
				Spec: schedulingv1beta1.PodGroupSpec{
					WorkloadRef:      &schedulingv1beta1.WorkloadReference{WorkloadName: "w", TemplateName: "workers"},
					SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}},
				},
			}
		},
		Update: func(g *podGroup) { g.Spec.SchedulingPolicy.Gang.MinCount = 3 },
		StatusUpdate: func(g *podGroup) {
			g.Status.Conditions = []metav1.Condition{{
				Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled", LastTransitionTime: metav1.Now(),
			}}
		},
		Invalid: []registrytest.Invalid[*podGroup]{
			{Name: "no policy", Mutate: func(g *podGroup) { g.Spec.SchedulingPolicy.Gang = nil }, Field: "spec.schedulingPolicy"},
			{Name: "two policies", Mutate: func(g *podGroup) { g.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{} }, Field: "spec.schedulingPolicy"},
			{Name: "nobody needed", Mutate: func(g *podGroup) { g.Spec.SchedulingPolicy.Gang.MinCount = 0 }, Field: "spec.schedulingPolicy.gang.minCount"},
			{Name: "fewer than nobody", Mutate: func(g *podGroup) { g.Spec.SchedulingPolicy.Gang.MinCount = -1 }, Field: "spec.schedulingPolicy.gang.minCount"},
			{Name: "two modes", Mutate: func(g *podGroup) {
				g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}, All: &schedulingv1beta1.AllDisruptionMode{}}
			}, Field: "spec.disruptionMode"},
			{Name: "workload", Mutate: func(g *podGroup) { g.Spec.WorkloadRef.WorkloadName = "" }, Field: "spec.workloadRef.workloadName"},
			{Name: "workload's name", Mutate: func(g *podGroup) { g.Spec.WorkloadRef.WorkloadName = "W" }, Field: "spec.workloadRef.workloadName"},
			{Name: "template's name", Mutate: func(g *podGroup) { g.Spec.WorkloadRef.TemplateName = "a.b" }, Field: "spec.workloadRef.templateName"},
			{Name: "class", Mutate: func(g *podGroup) { g.Spec.PriorityClassName = "A" }, Field: "spec.priorityClassName"},
			{Name: "the system's priority", Mutate: func(g *podGroup) { g.Spec.Priority = new(int32(1_000_000_001)) }, Field: "spec.priority"},
			{Name: "name", Mutate: func(g *podGroup) { g.Name = "G" }, Field: "metadata.name"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*podGroup]{
			{Name: "another policy", Mutate: func(g *podGroup) {
				g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
			}, Field: "spec.schedulingPolicy.gang"},
			{Name: "from basic", From: func(g *podGroup) {
				g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
			}, Mutate: func(g *podGroup) {
				g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1}}
			}, Field: "spec.schedulingPolicy.basic"},
			{Name: "workload", Mutate: func(g *podGroup) { g.Spec.WorkloadRef = nil }, Field: "spec.workloadRef"},
			{Name: "mode", Mutate: func(g *podGroup) {
				g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
			}, Field: "spec.disruptionMode"},
			{Name: "class", Mutate: func(g *podGroup) { g.Spec.PriorityClassName = "a" }, Field: "spec.priorityClassName"},
			{Name: "priority", Mutate: func(g *podGroup) { g.Spec.Priority = new(int32(1)) }, Field: "spec.priority"},
		},
		Row: []any{"g", "Gang", "w", "Pending"},
	})
}

func TestDropDisabled(t *testing.T) {
	full := func() schedulingv1beta1.PodGroupSpec {
		return schedulingv1beta1.PodGroupSpec{
			SchedulingConstraints:       &schedulingv1beta1.PodGroupSchedulingConstraints{},
			ResourceClaims:              []schedulingv1beta1.PodGroupResourceClaim{{Name: "c"}},
			PreemptionPolicy:            new(schedulingv1beta1.PreemptNever),
			ParentCompositePodGroupName: new("p"),
			PriorityClassName:           "a",
		}
	}
	plain := schedulingv1beta1.PodGroupSpec{PriorityClassName: "a"}
	for _, tc := range []struct {
		name      string
		old, want schedulingv1beta1.PodGroupSpec
	}{
		{"new", schedulingv1beta1.PodGroupSpec{}, plain},
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

func TestStatus(t *testing.T) {
	claims := []schedulingv1beta1.PodGroupResourceClaim{{Name: "c"}}
	statuses := []schedulingv1beta1.PodGroupResourceClaimStatus{{Name: "c"}, {Name: "d"}}
	for _, tc := range []struct {
		name string
		spec schedulingv1beta1.PodGroupSpec
		in   schedulingv1beta1.PodGroupStatus
		want []string
	}{
		{"claims are dropped", schedulingv1beta1.PodGroupSpec{}, schedulingv1beta1.PodGroupStatus{ResourceClaimStatuses: statuses}, nil},
		{"claims of a spec that has them", schedulingv1beta1.PodGroupSpec{ResourceClaims: claims}, schedulingv1beta1.PodGroupStatus{ResourceClaimStatuses: statuses},
			[]string{"status.resourceClaimStatuses[1].name"}},
		{"condition", schedulingv1beta1.PodGroupSpec{}, schedulingv1beta1.PodGroupStatus{
			Conditions: []metav1.Condition{{Type: "A", Status: "maybe", Reason: "r", LastTransitionTime: metav1.Now()}},
		}, []string{"status.conditions[0].status"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := &podGroup{Spec: tc.spec}
			g := &podGroup{Spec: tc.spec, Status: tc.in}
			Resource.Status.PrepareForUpdate(t.Context(), g, old)
			var got []string
			for _, err := range Resource.Status.Validate(t.Context(), g, old) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestState(t *testing.T) {
	scheduled := func(s metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: s, Reason: "Any"}
	}
	disrupted := metav1.Condition{Type: schedulingv1beta1.DisruptionTarget, Status: metav1.ConditionTrue, Reason: "PreemptionByScheduler"}
	for _, tc := range []struct {
		name       string
		conditions []metav1.Condition
		want       string
	}{
		{"new", nil, "Pending"},
		{"scheduled", []metav1.Condition{scheduled(metav1.ConditionTrue)}, "Scheduled"},
		{"not", []metav1.Condition{scheduled(metav1.ConditionFalse)}, "Unschedulable"},
		{"disrupted", []metav1.Condition{scheduled(metav1.ConditionTrue), disrupted}, "PreemptionByScheduler"},
	} {
		if got := state(tc.conditions); got != tc.want {
			t.Errorf("%s: state is %q, want %q", tc.name, got, tc.want)
		}
	}
}
