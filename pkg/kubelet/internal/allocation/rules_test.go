// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"minik8s.io/minik8s/pkg/kubelet/internal/admission"
)

func TestRules(t *testing.T) {
	t.Parallel()
	ask := func(cpu, memory, limit string, policy ...corev1.ContainerResizePolicy) *corev1.Pod {
		r := corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit), corev1.ResourceMemory: resource.MustParse(memory)},
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: r, ResizePolicy: policy}}}}
	}
	restart := corev1.ContainerResizePolicy{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}
	other := corev1.ContainerResizePolicy{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}
	all := Rules{Swaps: func(*corev1.Pod, *corev1.Container) bool { return true }}
	now := Rules{Swaps: func(p *corev1.Pod, _ *corev1.Container) bool {
		return p.Spec.Containers[0].Resources.Requests.Memory().Value() == 1<<30
	}}
	exclusive := func(e Exclusive) Rules { return Rules{Exclusive: e} }
	cpu := &Pending{"Infeasible", `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`, "guaranteed_pod_cpu_manager_static_policy"}
	memory := &Pending{"Infeasible", `Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`, "guaranteed_pod_memory_manager_static_policy"}
	swap := &Pending{"Infeasible", "In-place resize of containers with swap is not supported.", "swap_limitation"}
	for _, tc := range []struct {
		name          string
		rules         Rules
		desired, have *corev1.Pod
		want          *Pending
	}{
		{name: "the first time", rules: exclusive(Exclusive{"cpu": "static"}), desired: ask("1", "1Gi", "1")},
		{name: "nothing changes", rules: exclusive(Exclusive{"cpu": "static"}), desired: ask("1000m", "1Gi", "1"), have: ask("1", "1Gi", "1")},
		{name: "no policy", desired: ask("2", "1Gi", "2"), have: ask("1", "1Gi", "1")},
		{name: "CPU", rules: exclusive(Exclusive{"cpu": "static"}), desired: ask("2", "1Gi", "2"), have: ask("1", "1Gi", "1"), want: cpu},
		{name: "CPU, and memory is given", rules: exclusive(Exclusive{"memory": "Static"}), desired: ask("2", "1Gi", "2"), have: ask("1", "1Gi", "1")},
		{name: "memory", rules: exclusive(Exclusive{"cpu": "static", "memory": "Static"}), desired: ask("1", "2Gi", "1"), have: ask("1", "1Gi", "1"), want: memory},
		{name: "not Guaranteed", rules: exclusive(Exclusive{"cpu": "static"}), desired: ask("2", "1Gi", "3"), have: ask("1", "1Gi", "3")},
		{name: "memory with swap", rules: all, desired: ask("1", "2Gi", "2"), have: ask("1", "1Gi", "2"), want: swap},
		{name: "memory with swap, CPU restarts", rules: all, desired: ask("1", "2Gi", "2", other), have: ask("1", "1Gi", "2", other), want: swap},
		{name: "memory, with swap so far", rules: now, desired: ask("1", "2Gi", "2"), have: ask("1", "1Gi", "2"), want: swap},
		{name: "memory, with swap from now on", rules: now, desired: ask("1", "1Gi", "2"), have: ask("1", "2Gi", "2"), want: swap},
		{name: "memory with swap, which restarts", rules: all, desired: ask("1", "2Gi", "2", restart), have: ask("1", "1Gi", "2", restart)},
		{name: "memory, where others have swap", rules: now, desired: ask("1", "2Gi", "2"), have: ask("1", "3Gi", "2")},
		{name: "CPU with swap", rules: all, desired: ask("1", "1Gi", "2"), have: ask("2", "1Gi", "2")},
	} {
		run, pending := tc.rules.Decide(tc.desired, tc.have, func(*corev1.Pod) *admission.Refusal { return nil })
		if diff := cmp.Diff(tc.want, pending); diff != "" || tc.want != nil && !Same(run, tc.have) {
			t.Errorf("%s: %+v (-want +got):\n%s", tc.name, run.Spec, diff)
		}
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if text != "" {
				out[name] = resource.MustParse(text)
			}
		}
		return out
	}
	of := func(requests, limits corev1.ResourceList) *corev1.Pod {
		r := corev1.ResourceRequirements{Requests: requests, Limits: limits}
		return &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "i", Resources: r}}, Containers: []corev1.Container{{Name: "c"}}}}
	}
	for _, tc := range []struct {
		name        string
		before, now *corev1.Pod
		want        []Request
	}{
		{"the same", of(list("1", ""), nil), of(list("1000m", ""), nil), nil},
		{"each", of(list("1", "1Gi"), list("", "2Gi")), of(list("2", "512Mi"), list("4", "")),
			[]Request{{"memory", "requests", "decrease"}, {"memory", "limits", "remove"}, {"cpu", "requests", "increase"}, {"cpu", "limits", "add"}}},
		{"another container", of(list("1", ""), nil), &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "i"}}}}, nil},
	} {
		if diff := cmp.Diff(tc.want, Requests(tc.now, tc.before)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
