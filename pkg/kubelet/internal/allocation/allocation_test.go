// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/internal/admission"
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
	room := func(asked *corev1.Pod) *admission.Refusal { return admission.Room(asked, node, others) }
	pressure := func(*corev1.Pod) *admission.Refusal { return &admission.Refusal{Reason: "Evicted", Message: "no"} }
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
		admit         func(*corev1.Pod) *admission.Refusal
		want          *corev1.Pod
		pending       *Pending
	}{
		{name: "new", desired: pod("p", "9", "9Gi"), want: pod("p", "9", "9Gi")},
		{name: "not resized", desired: image(pod("p", "1", "1Gi")), have: pod("p", "1000m", "1024Mi"), admit: pressure, want: image(pod("p", "1", "1Gi"))},
		{name: "room", desired: pod("p", "2", "2Gi"), have: pod("p", "1", "1Gi"), admit: room, want: pod("p", "2", "2Gi")},
		{name: "less than before", desired: allocated(pod("p", "1", "1Gi")), have: pod("p", "3", "3Gi"), admit: room, want: allocated(pod("p", "1", "1Gi"))},
		{name: "others have it, all else changes", desired: image(pod("p", "3", "1Gi")), have: pod("p", "1", "1Gi"), admit: room, want: image(pod("p", "1", "1Gi")),
			pending: &Pending{"Deferred", "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000", "OutOfcpu"}},
		{name: "more than there is", desired: pod("p", "1", "5119Mi"), have: pod("p", "1", "1Gi"), admit: room, want: pod("p", "1", "1Gi"),
			pending: &Pending{"Deferred", "Node didn't have enough resource: memory, requested: 5367660544, used: 2147483648, capacity: 4294967296", "OutOfmemory"}},
		{name: "more cpu than there is", desired: pod("p", "4001m", "1Gi"), have: pod("p", "1", "1Gi"), admit: room, want: pod("p", "1", "1Gi"),
			pending: &Pending{"Deferred", "Node didn't have enough resource: cpu, requested: 4001, used: 2000, capacity: 4000", "OutOfcpu"}},
		{name: "of the pod as a whole", desired: level(pod("p", "1", "1Gi"), "3"), have: level(pod("p", "1", "1Gi"), "1"), admit: room, want: level(pod("p", "1", "1Gi"), "1"),
			pending: &Pending{"Deferred", "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000", "OutOfcpu"}},
		{name: "refused for something else", desired: pod("p", "2", "2Gi"), have: pod("p", "1", "1Gi"), admit: pressure, want: pod("p", "1", "1Gi"),
			pending: &Pending{"Deferred", "no", "Evicted"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := tc.desired.DeepCopy()
			got, pending := Decide(tc.desired, tc.have, tc.admit)
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

func TestMessage(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{}
	if got, want := Message("Pod resize completed", pod, 2, ""), `Pod resize completed: {"generation":2}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	limits := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	pod.Spec.InitContainers, pod.Spec.Containers = []corev1.Container{{Name: "i"}}, []corev1.Container{{Name: "c", Resources: limits}}
	const want = `Pod resize Deferred: {"initContainers":[{"name":"i","resources":{}}],"containers":[{"name":"c","resources":{"limits":{"cpu":"2"}}}],"generation":3,"error":"no room"}`
	if got := Message("Pod resize Deferred", pod, 3, "no room"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// That a resize waits is told again if it is another one, or waits for something else, and not each time that others use more or less.
func TestWaiting(t *testing.T) {
	t.Parallel()
	var w Waiting
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	for i, step := range []struct {
		name       string
		generation int64
		pending    *Pending
		news       bool
		since      int64
	}{
		{"the first", 1, &Pending{"Deferred", "100 in use", ""}, true, 0},
		{"with another use", 1, &Pending{"Deferred", "90 in use", ""}, false, 0},
		{"another resize", 2, &Pending{"Deferred", "90 in use", ""}, true, 0},
		{"room", 2, nil, false, 10},
		{"the next", 3, &Pending{"Deferred", "90 in use", ""}, true, 0},
		{"never to be", 3, &Pending{"Infeasible", "too much", ""}, true, 0},
		{"none", 4, nil, false, 0},
		{"again", 4, &Pending{"Infeasible", "too much", ""}, true, 0},
	} {
		want := time.Time{}
		if step.since > 0 {
			want = at(step.since)
		}
		if got, since := w.Set("u", step.generation, step.pending, at(int64(10+i))); got != step.news || since != want {
			t.Errorf("%s: news %t, deferred since %v", step.name, got, since)
		}
		if diff := cmp.Diff(step.pending, w.Get("u")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	w.Begin("u", 4)
	if u, v := w.Begun("u"), w.Begun("v"); u != 4 || v != 0 {
		t.Errorf("begun are %d and %d", u, v)
	}
	for _, runs := range []struct {
		as   int64
		want bool
	}{{3, false}, {5, true}, {5, false}} {
		if g, is := w.Complete("u", runs.as); is != runs.want || is && g != 4 {
			t.Errorf("runs as %d: %d, %t", runs.as, g, is)
		}
	}
	w.Begin("u", 6)
	first, second := pod("u", "1", "1Gi"), pod("u", "2", "1Gi")
	if before := w.Ask(first); before != nil {
		t.Errorf("it has asked before: %v", before)
	}
	if before := w.Ask(second); before != first {
		t.Errorf("before it has asked for %v", before)
	}
	w.Forget("u")
	if _, is := w.Complete("u", 6); is || w.Get("u") != nil || w.Ask(first) != nil {
		t.Error("it is not forgotten")
	}
}
