// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeunschedulable

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
		{"cordoned", []*corev1.Node{pt.Node("a", pt.Cordoned()), pt.Node("b")}, nil, pt.Pod("p"), map[string]string{"a": ErrReason, "b": ""}},
		{"tolerated", []*corev1.Node{pt.Node("a", pt.Cordoned())}, nil,
			pt.Pod("p", pt.Tolerate(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})),
			map[string]string{"a": ""}},
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

func TestRequeue(t *testing.T) {
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		event    fwk.ClusterEvent
		old, new any
		want     bool
	}{
		{"uncordoned", pt.Pod("p"), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}, pt.Node("a", pt.Cordoned()), pt.Node("a"), true},
		{"other taints of a node that was not cordoned", pt.Pod("p"), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}, pt.Node("a", pt.Taint("k", "", corev1.TaintEffectNoSchedule)), pt.Node("a"), false},
		{"a cordoned node is added", pt.Pod("p"), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, pt.Node("a", pt.Cordoned()), false},
		{"labels", pt.Pod("p"), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}, pt.Node("a"), pt.Node("a"), false},
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
