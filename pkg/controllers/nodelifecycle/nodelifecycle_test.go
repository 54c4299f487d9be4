// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodelifecycle

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/controllertest"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func node(name string, ready corev1.ConditionStatus, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.NewTime(now.Add(-time.Minute))},
		}},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func render(list []corev1.Taint) []string {
	var got []string
	for _, t := range list {
		got = append(got, t.Key+":"+string(t.Effect))
	}
	return got
}

func TestReconciler_SilentNode(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec:       corev1.PodSpec{NodeName: "dead"},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	controllertest.Run(t, controllertest.Case{
		Objects: []client.Object{node("dead", corev1.ConditionTrue), node("live", corev1.ConditionTrue), pod},
		Request: reconcile.Request{NamespacedName: types.NamespacedName{Name: "dead"}},
		New: func(c client.Client) reconcile.Reconciler {
			clock := clocktesting.NewFakeClock(now)
			r := &Reconciler{Client: c, Events: &record.FakeRecorder{}, Clock: clock}
			// The process has heard of the node, and then nothing more.
			return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				if len(r.heartbeats) == 0 {
					if result, err := r.Reconcile(ctx, req); err != nil || result.RequeueAfter == 0 {
						return result, err
					}
					clock.Step(monitorGrace)
				}
				return r.Reconcile(ctx, req)
			})
		},
		Want: func(ctx context.Context, c client.Client) error {
			var n corev1.Node
			if err := c.Get(ctx, types.NamespacedName{Name: "dead"}, &n); err != nil {
				return err
			}
			want := []string{corev1.TaintNodeUnreachable + ":NoSchedule", corev1.TaintNodeUnreachable + ":NoExecute"}
			if diff := cmp.Diff(want, render(n.Spec.Taints)); diff != "" {
				return fmt.Errorf("taints (-want +got):\n%s", diff)
			}
			if c := condition(&n, corev1.NodeReady); c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
				return fmt.Errorf("Ready is %+v", c)
			}
			if c := condition(&n, corev1.NodeMemoryPressure); c == nil || c.Reason != "NodeStatusNeverUpdated" {
				return fmt.Errorf("MemoryPressure is %+v", c)
			}
			var p corev1.Pod
			if err := c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "p"}, &p); err != nil {
				return err
			}
			if p.Status.Conditions[0].Status != corev1.ConditionFalse {
				return fmt.Errorf("the pod still is ready")
			}
			return nil
		},
	})
}

func TestTaints(t *testing.T) {
	old := metav1.NewTime(now.Add(-time.Hour))
	with := func(list ...corev1.Taint) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = list }
	}
	tests := []struct {
		name  string
		node  *corev1.Node
		evict bool
		want  []string
	}{
		{name: "healthy", node: node("n", corev1.ConditionTrue)},
		{name: "foreign taints stay", node: node("n", corev1.ConditionTrue, with(corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute})), want: []string{"x:NoExecute"}},
		{name: "recovered", node: node("n", corev1.ConditionTrue, with(corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}))},
		{name: "not ready", node: node("n", corev1.ConditionFalse), evict: true, want: []string{corev1.TaintNodeNotReady + ":NoSchedule", corev1.TaintNodeNotReady + ":NoExecute"}},
		{name: "not ready, no eviction", node: node("n", corev1.ConditionFalse), want: []string{corev1.TaintNodeNotReady + ":NoSchedule"}},
		{name: "cordoned", node: node("n", corev1.ConditionTrue, func(n *corev1.Node) { n.Spec.Unschedulable = true }), want: []string{corev1.TaintNodeUnschedulable + ":NoSchedule"}},
		{name: "pressure", node: node("n", corev1.ConditionTrue, func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
		}), want: []string{corev1.TaintNodeDiskPressure + ":NoSchedule"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, render(taints(tt.node, tt.evict, now))); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
	kept := taints(node("n", corev1.ConditionFalse, with(corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute, TimeAdded: &old})), true, now)
	if !kept[0].TimeAdded.Equal(&old) {
		t.Errorf("the time of a taint that stays moved to %v", kept[0].TimeAdded)
	}
}

func TestPace(t *testing.T) {
	nodes := func(ready, notReady int) (list []corev1.Node) {
		for range ready {
			list = append(list, *node("r", corev1.ConditionTrue))
		}
		for range notReady {
			list = append(list, *node("n", corev1.ConditionUnknown))
		}
		return list
	}
	tests := []struct {
		name            string
		ready, notReady int
		interval        time.Duration
		ok              bool
	}{
		{name: "one of two", ready: 1, notReady: 1, interval: evictionInterval, ok: true},
		{name: "all", notReady: 3},
		{name: "most of a small zone", ready: 1, notReady: 3, interval: disruptedInterval},
		{name: "most of a large zone", ready: 20, notReady: 40, interval: disruptedInterval, ok: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list := nodes(tt.ready, tt.notReady)
			interval, ok := pace(list, zoneOf(&list[0]))
			if interval != tt.interval || ok != tt.ok {
				t.Errorf("got %v, %v", interval, ok)
			}
		})
	}
}
