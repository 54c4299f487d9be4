// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package noderesources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/scheduler/framework"
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
		{"fits", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p", pt.Requests("cpu", "4", "memory", "8Gi")), map[string]string{"a": ""}},
		{"everything is short", []*corev1.Node{pt.Node("a", pt.Allocatable("ephemeral-storage", "1Gi", "example.com/thing", "1"))},
			[]*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Requests("cpu", "3", "example.com/thing", "1"))},
			pt.Pod("p", pt.Requests("cpu", "2", "memory", "9Gi", "ephemeral-storage", "2Gi", "example.com/thing", "1")),
			map[string]string{"a": "Insufficient cpu, Insufficient memory, Insufficient ephemeral-storage, Insufficient example.com/thing"}},
		{"too many pods", []*corev1.Node{pt.Node("a", pt.Allocatable("pods", "1"))}, []*corev1.Pod{pt.Pod("o", pt.On("a"))}, pt.Pod("p"), map[string]string{"a": "Too many pods"}},
		{"asks for nothing on an overfull node", []*corev1.Node{pt.Node("a", pt.Allocatable("cpu", "1"))}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Requests("cpu", "2"))}, pt.Pod("p"), map[string]string{"a": ""}},
		{"init containers run one by one, sidecars stay", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p", pt.Requests("cpu", "2"), func(p *corev1.Pod) {
			always := corev1.ContainerRestartPolicyAlways
			ask := func(cpu string) corev1.ResourceRequirements {
				return pt.Pod("x", pt.Requests("cpu", cpu)).Spec.Containers[0].Resources
			}
			p.Spec.InitContainers = []corev1.Container{
				{Name: "sidecar", RestartPolicy: &always, Resources: ask("1500m")},
				{Name: "init", Resources: ask("2600m")},
			}
		}), map[string]string{"a": "Insufficient cpu"}},
		{"overhead", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p", pt.Requests("cpu", "4"), func(p *corev1.Pod) {
			p.Spec.Overhead = pt.Pod("x", pt.Requests("cpu", "1m")).Spec.Containers[0].Resources.Requests
		}), map[string]string{"a": "Insufficient cpu"}},
		{"pod-level resources", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p", pt.Requests("cpu", "1"), func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: pt.Pod("x", pt.Requests("cpu", "5")).Spec.Containers[0].Resources.Requests}
		}), map[string]string{"a": "Insufficient cpu"}},
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

func TestFilter_Code(t *testing.T) {
	busy := pt.Nodes([]*corev1.Node{pt.Node("a")}, pt.Pod("o", pt.On("a"), pt.Requests("cpu", "3")))[0]
	for _, tc := range []struct {
		name, cpu string
		want      framework.Code
	}{
		{"fits", "1", framework.Success},
		{"fits an empty node", "4", framework.Unschedulable},
		{"fits no such node", "5", framework.UnschedulableAndUnresolvable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := (&Fit{}).Filter(t.Context(), framework.NewCycleState(), framework.NewPodInfo(pt.Pod("p", pt.Requests("cpu", tc.cpu))), busy)
			if got.Code() != tc.want {
				t.Errorf("got %v, want %v", got.Code(), tc.want)
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
		{"the emptier node is better", []*corev1.Node{pt.Node("a"), pt.Node("b")}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.Requests("cpu", "2", "memory", "4Gi"))},
			pt.Pod("p", pt.Requests("cpu", "1", "memory", "2Gi")), map[string]int64{"a": 25, "b": 75}},
		{"a node without resources", []*corev1.Node{pt.Node("a", pt.Allocatable("cpu", "0", "memory", "0"))}, nil, pt.Pod("p"), map[string]int64{"a": 0}},
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
		event    framework.ClusterEvent
		old, new any
		want     bool
	}{
		{"a pod is gone", pt.Pod("p"), framework.ClusterEvent{Resource: framework.AssignedPod, Action: framework.Delete}, pt.Pod("o"), nil, true},
		{"a large node", pt.Pod("p", pt.Requests("cpu", "3")), framework.ClusterEvent{Resource: framework.Node, Action: framework.Add}, nil, pt.Node("a"), true},
		{"a small node", pt.Pod("p", pt.Requests("cpu", "5")), framework.ClusterEvent{Resource: framework.Node, Action: framework.UpdateAllocatable}, nil, pt.Node("a"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(nil)
			got := false
			for _, r := range pt.NewPlugin(t, h, New).(framework.RequeuePlugin).Requeue() {
				if r.Event.Matches(tc.event) {
					got = got || r.Hint == nil || r.Hint(t.Context(), framework.NewPodInfo(tc.pod), tc.old, tc.new)
				}
			}
			if got != tc.want {
				t.Errorf("helps = %v, want %v", got, tc.want)
			}
		})
	}
}
