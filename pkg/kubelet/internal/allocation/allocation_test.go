// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func pod(uid types.UID, cpu, memory string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid}}
	p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: amounts("1m", "1Mi")}}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "old", Resources: corev1.ResourceRequirements{Requests: amounts(cpu, memory)}}}
	return p
}

func TestDecide(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: amounts("4", "4Gi")}}
	node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("10")
	others := []*corev1.Pod{pod("other", "2", "2Gi")}
	image := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.Containers[0].Image = "new"
		return p
	}
	allocated := func(p *corev1.Pod) *corev1.Pod {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: amounts("3", "3Gi")}}
		return p
	}
	level := func(p *corev1.Pod, cpu string) *corev1.Pod {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts(cpu, "1Gi")}
		return p
	}
	for _, tc := range []struct {
		name          string
		desired, have *corev1.Pod
		node          *corev1.Node
		want          *corev1.Pod
		pending       *Pending
	}{
		{name: "new", desired: pod("p", "9", "9Gi"), node: node, want: pod("p", "9", "9Gi")},
		{name: "not resized", desired: image(pod("p", "1", "1Gi")), have: pod("p", "1000m", "1024Mi"), node: nil, want: image(pod("p", "1", "1Gi"))},
		{name: "room", desired: pod("p", "2", "2Gi"), have: pod("p", "1", "1Gi"), node: node, want: pod("p", "2", "2Gi")},
		{name: "less than before", desired: allocated(pod("p", "1", "1Gi")), have: pod("p", "3", "3Gi"), node: node, want: allocated(pod("p", "1", "1Gi"))},
		{name: "others have it, all else changes", desired: image(pod("p", "3", "1Gi")), have: pod("p", "1", "1Gi"), node: node, want: image(pod("p", "1", "1Gi")),
			pending: &Pending{"Deferred", "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"}},
		{name: "more than there is", desired: pod("p", "1", "5Gi"), have: pod("p", "1", "1Gi"), node: node, want: pod("p", "1", "1Gi"),
			pending: &Pending{"Infeasible", "Node didn't have enough capacity: memory, requested: 5368709120, capacity: 4294967296"}},
		{name: "more cpu than there is", desired: pod("p", "4001m", "1Gi"), have: pod("p", "1", "1Gi"), node: node, want: pod("p", "1", "1Gi"),
			pending: &Pending{"Infeasible", "Node didn't have enough capacity: cpu, requested: 4001, capacity: 4000"}},
		{name: "of the pod as a whole", desired: level(pod("p", "1", "1Gi"), "3"), have: level(pod("p", "1", "1Gi"), "1"), node: node, want: level(pod("p", "1", "1Gi"), "1"),
			pending: &Pending{"Deferred", "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"}},
		{name: "no node", desired: pod("p", "2", "2Gi"), have: pod("p", "1", "1Gi"), want: pod("p", "1", "1Gi"),
			pending: &Pending{"Deferred", "the node is not known yet"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := tc.desired.DeepCopy()
			got, pending := Decide(tc.desired, tc.have, tc.node, others)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.pending, pending); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, tc.desired); diff != "" {
				t.Errorf("desired was changed: %s", diff)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const guaranteed, burstable, bestEffort = corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort
	with := func(priority int32, class corev1.PodQOSClass) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{{}}}}
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Mi")}
		switch class {
		case guaranteed:
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
		case burstable:
			p.Spec.Containers[0].Resources.Requests = list
		}
		return p
	}
	for _, tc := range []struct {
		name string
		a, b *corev1.Pod
		want int
	}{
		{"the higher priority", with(2, burstable), with(1, guaranteed), -1},
		{"the better class", with(1, guaranteed), with(1, burstable), -1},
		{"any class before none", with(1, burstable), with(1, bestEffort), -1},
		{"the same", with(1, burstable), with(1, burstable), 0},
	} {
		if ab, ba := Compare(tc.a, tc.b), Compare(tc.b, tc.a); ab != tc.want || ba != -tc.want {
			t.Errorf("%s: %d and %d", tc.name, ab, ba)
		}
	}
}
