// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package gangscheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/podgroup"
	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New, pt.Pod("grouped", in("g"))) }

func in(group string) pt.PodOption {
	return func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group} }
}

func gang(name string, n int32) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: n}}},
	}
}

func basic(name string) *schedulingv1beta1.PodGroup {
	g := gang(name, 1)
	g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	return g
}

// newPlugin returns the plugin on groups "g", a gang of two, and "b", which is none.
func newPlugin(t *testing.T, pods ...*corev1.Pod) (*GangScheduling, *podgroup.Groups, *pt.Handle) {
	t.Helper()
	h := pt.NewHandle(nil, gang("g", 2), basic("b"))
	groups := podgroup.New(h.Factory.Scheduling().V1beta1().PodGroups().Lister())
	for _, p := range pods {
		groups.Seen(p)
	}
	h.Groups = groups
	return pt.NewPlugin(t, h, New).(*GangScheduling), groups, h
}

func TestPreEnqueue(t *testing.T) {
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		others []*corev1.Pod
		want   string
	}{
		{name: "no group", pod: pt.Pod("p")},
		{name: "no such group", pod: pt.Pod("p", in("x")), want: `waiting for pods's pod group "x" to appear in scheduling queue`},
		{name: "the first of two", pod: pt.Pod("p", in("g")), want: "waiting for minCount pods from a gang to appear in scheduling queue"},
		{name: "the second of two", pod: pt.Pod("p", in("g")), others: []*corev1.Pod{pt.Pod("q", in("g"))}},
		{name: "beside one that runs", pod: pt.Pod("p", in("g")), others: []*corev1.Pod{pt.Pod("q", in("g"), pt.On("n"))}},
		{name: "another namespace's pod does not count", pod: pt.Pod("p", in("g")), others: []*corev1.Pod{pt.Pod("q", in("g"), pt.Namespace("other"))},
			want: "waiting for minCount pods from a gang to appear in scheduling queue"},
		{name: "not a gang", pod: pt.Pod("p", in("b"))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plugin, _, _ := newPlugin(t, append(tc.others, tc.pod)...)
			if got := plugin.PreEnqueue(t.Context(), tc.pod); got.Message() != tc.want {
				t.Errorf("got %q, want %q", got.Message(), tc.want)
			}
		})
	}
}

func TestGroupFeasible(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		group                *schedulingv1beta1.PodGroup
		scheduled, remaining int
		want                 fwk.Code
	}{
		{"enough have a node", gang("g", 2), 2, 3, fwk.Success},
		{"enough are left", gang("g", 2), 1, 1, fwk.Wait},
		{"too few are left", gang("g", 2), 0, 1, fwk.Unschedulable},
		{"one is enough if it is no gang", basic("b"), 1, 0, fwk.Success},
		{"none is too few", basic("b"), 0, 0, fwk.Unschedulable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := (&GangScheduling{}).GroupFeasible(t.Context(), &framework.Group{Object: tc.group}, tc.scheduled, tc.remaining)
			if got.Code() != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestPermit has a gang lose a pod while it is being bound: the other one waits for the next, and then passes with it.
func TestPermit(t *testing.T) {
	first, second := pt.Pod("first", in("g")), pt.Pod("second", in("g"))
	plugin, groups, h := newPlugin(t, first, second)
	h.Use(t, Name, New)
	groups.Assume(first)
	state := framework.NewCycleState(framework.NewPodInfo(first))
	if got := h.RunPermit(t.Context(), state, first, "n"); got.Code() != fwk.Wait {
		t.Fatalf("the first of two: %v, want to wait", got)
	}
	groups.Assume(second)
	if got, _ := plugin.Permit(t.Context(), state, second, "n"); !got.IsSuccess() {
		t.Errorf("the second of two: %v", got)
	}
	if got := h.WaitOnPermit(t.Context(), first); !got.IsSuccess() {
		t.Errorf("the first, once the second has room: %v", got)
	}
}

func TestHints(t *testing.T) {
	plugin, _, _ := newPlugin(t)
	pod := pt.Pod("p", in("g"))
	added := func(r fwk.EventResource) fwk.ClusterEvent { return fwk.ClusterEvent{Resource: r, ActionType: fwk.Add} }
	updated := fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Update}
	for _, tc := range []struct {
		name     string
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"another of the group", added(fwk.UnscheduledPod), nil, pt.Pod("q", in("g")), true},
		{"one of another group", added(fwk.UnscheduledPod), nil, pt.Pod("q", in("x")), false},
		{"one of none", added(fwk.UnscheduledPod), nil, pt.Pod("q"), false},
		{"another that runs", added(fwk.AssignedPod), nil, pt.Pod("q", in("g"), pt.On("n")), true},
		{"its group", added(fwk.PodGroup), nil, gang("g", 2), true},
		{"another group", added(fwk.PodGroup), nil, gang("x", 2), false},
		{"it wants fewer", updated, gang("g", 3), gang("g", 2), true},
		{"it wants more", updated, gang("g", 2), gang("g", 3), false},
		{"another wants fewer", updated, gang("x", 3), gang("x", 2), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := pt.Helps(t, plugin, pod, tc.event, tc.old, tc.new); got != tc.want {
				t.Errorf("helps = %v, want %v", got, tc.want)
			}
		})
	}
}
