// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPreempt(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("4"),
	}}}
	make := func(name, cpu, memory string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
		if cpu != "" {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		}
		for _, f := range change {
			f(p)
		}
		return p
	}
	critical := func(p *corev1.Pod) { p.Spec.Priority = new(int32(2000000000)) }
	more := func(p *corev1.Pod) { p.Spec.Priority = new(int32(2000001000)) }
	guaranteed := func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = p.Spec.Containers[0].Resources.Requests }
	port := func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		active []*corev1.Pod
		want   []string
		ok     bool
	}{
		{name: "not critical", pod: make("p", "1", "1Mi"), active: []*corev1.Pod{make("a", "2", "1Mi")}},
		{name: "there is room", pod: make("p", "1", "1Mi", critical), active: []*corev1.Pod{make("a", "1", "1Mi")}, ok: true},
		{name: "the nearest", pod: make("p", "1", "1Mi", critical), active: []*corev1.Pod{make("small", "500m", "1Mi"), make("large", "1500m", "1Mi")}, want: []string{"large"}, ok: true},
		{name: "of enough ones the smallest", pod: make("p", "500m", "1Mi", critical), active: []*corev1.Pod{make("large", "1", "2Mi"), make("small", "1", "1Mi")}, want: []string{"small"}, ok: true},
		{name: "guaranteed ones last", pod: make("p", "500m", "1Mi", critical), active: []*corev1.Pod{make("g", "1", "1Mi", guaranteed), make("b", "1", "9Mi")}, want: []string{"b"}, ok: true},
		{name: "all of them", pod: make("p", "2", "1Mi", critical), active: []*corev1.Pod{make("g", "1", "1Mi", guaranteed), make("b", "1", "9Mi")}, want: []string{"b", "g"}, ok: true},
		{name: "a place", pod: make("p", "", "", critical), active: []*corev1.Pod{make("a", "1", "1Mi"), make("b", "", ""), make("c", "", "", critical), make("d", "1", "1Mi")}, want: []string{"b"}, ok: true},
		{name: "critical ones stay", pod: make("p", "2", "1Mi", critical), active: []*corev1.Pod{make("a", "1", "1Mi", critical)}},
		{name: "but for more important ones", pod: make("p", "2", "1Mi", more), active: []*corev1.Pod{make("a", "1", "1Mi", critical)}, want: []string{"a"}, ok: true},
		{name: "too large for the node", pod: make("p", "3", "1Mi", critical), active: []*corev1.Pod{make("a", "1", "1Mi")}},
		{name: "refused for something else", pod: make("p", "2", "1Mi", critical, port), active: []*corev1.Pod{make("a", "1", "1Mi", port)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			victims, ok := Preempt(tc.pod, node, tc.active, Features{})
			var got []string
			for _, v := range victims {
				got = append(got, v.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.ok {
				t.Errorf("ok %v, want %v: %s", ok, tc.ok, diff)
			}
		})
	}
}
