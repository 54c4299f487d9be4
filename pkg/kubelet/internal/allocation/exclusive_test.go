// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestExclusive(t *testing.T) {
	t.Parallel()
	ask := func(cpu, memory, limit string) *corev1.Pod {
		r := corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit), corev1.ResourceMemory: resource.MustParse(memory)},
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: r}}}}
	}
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("8")}
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: room}}
	const cpu, memory = `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`, `Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`
	for _, tc := range []struct {
		name          string
		e             Exclusive
		desired, have *corev1.Pod
		want          string
	}{
		{name: "the first time", e: Exclusive{"cpu": "static"}, desired: ask("1", "1Gi", "1")},
		{name: "nothing changes", e: Exclusive{"cpu": "static"}, desired: ask("1000m", "1Gi", "1"), have: ask("1", "1Gi", "1")},
		{name: "no policy", desired: ask("2", "1Gi", "2"), have: ask("1", "1Gi", "1")},
		{name: "CPU", e: Exclusive{"cpu": "static"}, desired: ask("2", "1Gi", "2"), have: ask("1", "1Gi", "1"), want: cpu},
		{name: "CPU, and memory is given", e: Exclusive{"memory": "Static"}, desired: ask("2", "1Gi", "2"), have: ask("1", "1Gi", "1")},
		{name: "memory", e: Exclusive{"cpu": "static", "memory": "Static"}, desired: ask("1", "2Gi", "1"), have: ask("1", "1Gi", "1"), want: memory},
		{name: "not Guaranteed", e: Exclusive{"cpu": "static"}, desired: ask("2", "1Gi", "3"), have: ask("1", "1Gi", "3")},
	} {
		run, pending := tc.e.Decide(tc.desired, tc.have, node, nil)
		got := ""
		if pending != nil {
			got = pending.Message
		}
		if got != tc.want || tc.want != "" && (pending.Reason != corev1.PodReasonInfeasible || !Same(run, tc.have)) {
			t.Errorf("%s: %q, %+v", tc.name, got, run.Spec)
		}
	}
}
