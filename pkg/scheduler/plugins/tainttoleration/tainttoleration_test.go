// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package tainttoleration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  map[string]string
	}{
		{"effects", []*corev1.Node{
			pt.Node("none"),
			pt.Node("schedule", pt.Taint("k", "v", corev1.TaintEffectNoSchedule)),
			pt.Node("execute", pt.Taint("k", "v", corev1.TaintEffectNoExecute)),
			pt.Node("prefer", pt.Taint("k", "v", corev1.TaintEffectPreferNoSchedule)),
		}, nil, pt.Pod("p"), map[string]string{"none": "", "schedule": ErrReason, "execute": ErrReason, "prefer": ""}},
		{"tolerations", []*corev1.Node{
			pt.Node("equal", pt.Taint("k", "v", corev1.TaintEffectNoSchedule)),
			pt.Node("other value", pt.Taint("k", "w", corev1.TaintEffectNoSchedule)),
			pt.Node("other effect", pt.Taint("k", "v", corev1.TaintEffectNoExecute)),
			pt.Node("exists", pt.Taint("e", "v", corev1.TaintEffectNoExecute)),
		}, nil, pt.Pod("p", pt.Tolerate(
			corev1.Toleration{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule},
			corev1.Toleration{Key: "e", Operator: corev1.TolerationOpExists})),
			map[string]string{"equal": "", "other value": ErrReason, "other effect": ErrReason, "exists": ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(tc.nodes, tc.pods...))
			got := pt.Filter(t, h, pt.NewPlugin(t, h, New), tc.pod)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  map[string]int64
	}{
		{"fewer soft taints are better", []*corev1.Node{
			pt.Node("none"),
			pt.Node("one", pt.Taint("a", "", corev1.TaintEffectPreferNoSchedule)),
			pt.Node("two", pt.Taint("a", "", corev1.TaintEffectPreferNoSchedule), pt.Taint("b", "", corev1.TaintEffectPreferNoSchedule)),
		}, nil, pt.Pod("p"), map[string]int64{"none": 100, "one": 50, "two": 0}},
		{"no soft taints", []*corev1.Node{pt.Node("a"), pt.Node("b")}, nil, pt.Pod("p"), map[string]int64{"a": 100, "b": 100}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(tc.nodes, tc.pods...))
			got := pt.Score(t, h, pt.NewPlugin(t, h, New), tc.pod)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequeue(t *testing.T) {
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"taint removed", pt.Pod("p"), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}, nil, pt.Node("a"), true},
		{"tolerated before", pt.Pod("p"), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}, pt.Node("a"), pt.Node("a", pt.Taint("k", "", corev1.TaintEffectPreferNoSchedule)), false},
		{"tolerated now", pt.Pod("p"), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}, pt.Node("a", pt.Taint("k", "", corev1.TaintEffectNoSchedule)), pt.Node("a"), true},
		{"still tainted", pt.Pod("p"), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}, nil, pt.Node("a", pt.Taint("k", "", corev1.TaintEffectNoSchedule)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			got := pt.Helps(t, pt.NewPlugin(t, h, New), tc.pod, tc.event, tc.old, tc.new)
			if got != tc.want {
				t.Errorf("helps = %v, want %v", got, tc.want)
			}
		})
	}
}
