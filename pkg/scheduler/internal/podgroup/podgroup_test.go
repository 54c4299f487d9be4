// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(uid, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{NodeName: node, SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: new("g")}},
	}
}

func TestGroups(t *testing.T) {
	type counts struct{ Waiting, Assumed, Assigned int }
	for _, tc := range []struct {
		name string
		do   func(g *Groups)
		want counts
	}{
		{"seen", func(g *Groups) { g.Seen(pod("a", "")); g.Seen(pod("b", "n")) }, counts{Waiting: 1, Assigned: 1}},
		{"assumed", func(g *Groups) { g.Seen(pod("a", "")); g.Assume(pod("a", "n")) }, counts{Assumed: 1}},
		{"an update does not undo it", func(g *Groups) { g.Seen(pod("a", "")); g.Assume(pod("a", "n")); g.Seen(pod("a", "")) }, counts{Assumed: 1}},
		{"forgotten", func(g *Groups) { g.Seen(pod("a", "")); g.Assume(pod("a", "n")); g.Forget(pod("a", "")) }, counts{Waiting: 1}},
		{"bound", func(g *Groups) { g.Seen(pod("a", "")); g.Assume(pod("a", "n")); g.Seen(pod("a", "n")) }, counts{Assigned: 1}},
		{"bound before it is forgotten", func(g *Groups) { g.Seen(pod("a", "n")); g.Forget(pod("a", "")) }, counts{Assigned: 1}},
		{"gone before it is assumed", func(g *Groups) { g.Seen(pod("a", "")); g.Remove("a"); g.Assume(pod("a", "n")) }, counts{}},
		{"gone before it is forgotten", func(g *Groups) { g.Seen(pod("a", "")); g.Assume(pod("a", "n")); g.Remove("a"); g.Forget(pod("a", "")) }, counts{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := New(nil)
			tc.do(g)
			s, err := g.PodGroupStates().Get("ns", "g")
			if err != nil {
				t.Fatal(err)
			}
			got := counts{len(s.UnscheduledPods()), s.AssumedPods().Len(), s.AssignedPods().Len()}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("pods by stage (-want +got):\n%s", diff)
			}
			if n := len(g.Waiting(types.NamespacedName{Namespace: "ns", Name: "g"})); n != tc.want.Waiting {
				t.Errorf("%d are listed as waiting, want %d", n, tc.want.Waiting)
			}
			if s.AllPodsCount() == 0 && len(g.groups)+len(g.groupOf) > 0 {
				t.Error("a group without pods is remembered")
			}
		})
	}
}

func TestWithCondition(t *testing.T) {
	condition := func(s metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: "T", Status: s, Reason: reason}
	}
	was := []metav1.Condition{condition(metav1.ConditionTrue, "Scheduled")}
	if got := withCondition(was, condition(metav1.ConditionFalse, "Unschedulable")); got != nil {
		t.Errorf("what has been scheduled once is told to be %v", got)
	}
	if got := withCondition(was, was[0]); got != nil {
		t.Errorf("nothing has changed, and %v is written", got)
	}
	was[0].Status = metav1.ConditionFalse
	if got := withCondition(was, condition(metav1.ConditionTrue, "Scheduled")); len(got) != 1 || got[0].Status != metav1.ConditionTrue || was[0].Status != metav1.ConditionFalse {
		t.Errorf("got %v of %v", got, was)
	}
}
