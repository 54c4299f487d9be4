// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package schedulinggates

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	pt "minik8s.io/minik8s/pkg/scheduler/plugintest"
)

func TestSuite(t *testing.T) { pt.Run(t, Name, New) }

func TestPreEnqueue(t *testing.T) {
	p, err := New(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	gated := pt.Pod("p", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}, {Name: "b"}} })
	for _, tc := range []struct {
		name, want string
		pod        *corev1.Pod
	}{
		{"no gates", "", pt.Pod("p")},
		{"two gates", "waiting for scheduling gates: [a b]", gated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := p.(fwk.PreEnqueuePlugin).PreEnqueue(t.Context(), tc.pod)
			if got.Message() != tc.want {
				t.Errorf("got %q, want %q", got.Message(), tc.want)
			}
		})
	}
}
