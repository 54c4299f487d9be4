// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeports

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
		{"no ports", []*corev1.Node{pt.Node("a")}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.HostPort("", "TCP", 80))}, pt.Pod("p"), map[string]string{"a": ""}},
		{"same port", []*corev1.Node{pt.Node("a"), pt.Node("b")}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.HostPort("", "TCP", 80))},
			pt.Pod("p", pt.HostPort("127.0.0.1", "TCP", 80)), map[string]string{"a": ErrReason, "b": ""}},
		{"other protocol", []*corev1.Node{pt.Node("a")}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.HostPort("", "TCP", 80))},
			pt.Pod("p", pt.HostPort("", "UDP", 80)), map[string]string{"a": ""}},
		{"other address", []*corev1.Node{pt.Node("a")}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.HostPort("127.0.0.1", "TCP", 80))},
			pt.Pod("p", pt.HostPort("127.0.0.2", "TCP", 80)), map[string]string{"a": ""}},
		{"any address conflicts with one", []*corev1.Node{pt.Node("a")}, []*corev1.Pod{pt.Pod("o", pt.On("a"), pt.HostPort("127.0.0.1", "TCP", 80))},
			pt.Pod("p", pt.HostPort("0.0.0.0", "TCP", 80)), map[string]string{"a": ErrReason}},
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
		{"the port's holder is gone", pt.Pod("p", pt.HostPort("", "TCP", 80)), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, pt.Pod("o", pt.HostPort("", "TCP", 80)), nil, true},
		{"another pod is gone", pt.Pod("p", pt.HostPort("", "TCP", 80)), fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, pt.Pod("o", pt.HostPort("", "TCP", 81)), nil, false},
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
