// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package leastpod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func TestScore(t *testing.T) {
	nodes := []*corev1.Node{pt.Node("a"), pt.Node("b"), pt.Node("c", pt.Allocatable("cpu", "64"))}
	for _, tc := range []struct {
		name string
		pods []*corev1.Pod
		want map[string]int64
	}{
		{"equal: the first by name", nil, map[string]int64{"a": 100, "b": 99, "c": 99}},
		{"one is empty", []*corev1.Pod{pt.Pod("1", pt.On("a")), pt.Pod("2", pt.On("c"))}, map[string]int64{"a": 49, "b": 100, "c": 49}},
		{"requests do not count", []*corev1.Pod{
			pt.Pod("1", pt.On("a"), pt.Requests("cpu", "4")), pt.Pod("2", pt.On("b")), pt.Pod("3", pt.On("b")), pt.Pod("4", pt.On("c")), pt.Pod("5", pt.On("c")),
		}, map[string]int64{"a": 100, "b": 49, "c": 49}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pt.NewHandle(pt.Nodes(nodes, tc.pods...))
			if diff := cmp.Diff(tc.want, pt.Score(t, h, pt.NewPlugin(t, h, New), pt.Pod("p"))); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}
