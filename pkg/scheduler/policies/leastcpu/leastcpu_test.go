// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package leastcpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

// Nodes have 4 CPUs unless they say otherwise.
func TestScore(t *testing.T) {
	a, b, c := pt.Node("a"), pt.Node("b"), pt.Node("c", pt.Allocatable("cpu", "8"))
	for _, tc := range []struct {
		name string
		use  func(*pt.Metrics)
		pods []*corev1.Pod
		want map[string]int64
	}{
		{"the smallest share", func(m *pt.Metrics) {
			m.Node("a", "cpu", "2", "memory", "1Gi").Node("b", "cpu", "1", "memory", "7Gi").Node("c", "cpu", "1600m", "memory", "1Gi")
		}, nil, map[string]int64{"a": 0, "b": 82, "c": 100}},
		{"a node without figures is the last", func(m *pt.Metrics) {
			m.Node("a", "cpu", "4", "memory", "1Gi").Node("c", "cpu", "8", "memory", "1Gi")
		}, nil, map[string]int64{"a": 100, "b": 0, "c": 99}},
		{"a pod that was just placed", func(m *pt.Metrics) {
			m.Node("a", "cpu", "1", "memory", "1Gi").Node("b", "cpu", "1", "memory", "1Gi").Node("c", "cpu", "4", "memory", "1Gi")
		}, []*corev1.Pod{pt.Pod("p", pt.On("a"), pt.Requests("cpu", "1"))}, map[string]int64{"a": 0, "b": 100, "c": 0}},
		{"nothing is known: the fewest pods", func(m *pt.Metrics) { m.Break(true) },
			[]*corev1.Pod{pt.Pod("p", pt.On("a")), pt.Pod("q", pt.On("b")), pt.Pod("r", pt.On("b"))}, map[string]int64{"a": 66, "b": 33, "c": 100}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			metrics := pt.NewMetrics(t)
			tc.use(metrics)
			objects := []runtime.Object{a, b, c}
			for _, p := range tc.pods {
				objects = append(objects, p)
			}
			h := pt.NewHandle(pt.Nodes([]*corev1.Node{a, b, c}, tc.pods...), objects...)
			h.Config = metrics.Config()
			gone := make(chan map[string]*corev1.Pod, 1)
			h.Awaken = func(_ klog.Logger, pods map[string]*corev1.Pod) { gone <- pods }
			p := pt.NewPlugin(t, h, New)

			gate := p.(fwk.PreEnqueuePlugin)
			if s := gate.PreEnqueue(t.Context(), pt.Pod("new")); s.IsSuccess() {
				t.Error("a pod need not wait for figures")
			}
			if pods := <-gone; len(pods) != 1 || pods["new"] == nil {
				t.Errorf("pods %v go on", pods)
			}
			if s := gate.PreEnqueue(t.Context(), pt.Pod("new")); !s.IsSuccess() {
				t.Errorf("a pod waits although there are figures: %s", s.Message())
			}
			if diff := cmp.Diff(tc.want, pt.Score(t, h, p, pt.Pod("new"))); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}
