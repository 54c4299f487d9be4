// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package balancedallocation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func TestScore(t *testing.T) {
	for _, tc := range []struct {
		name  string
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  map[string]int64
	}{
		{"asks for nothing", []*corev1.Node{pt.Node("a")}, nil, pt.Pod("p"), nil},
		{"brings balance", []*corev1.Node{pt.Node("cpu"), pt.Node("empty"), pt.Node("memory")}, []*corev1.Pod{
			pt.Pod("c", pt.On("cpu"), pt.Requests("cpu", "2")), pt.Pod("m", pt.On("memory"), pt.Requests("memory", "4Gi"))},
			pt.Pod("p", pt.Requests("memory", "4Gi")), map[string]int64{"cpu": 87, "empty": 62, "memory": 62}},
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
