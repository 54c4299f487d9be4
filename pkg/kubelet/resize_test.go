// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/kubelet/container/fake"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
)

func memory(size string) *corev1.ResourceRequirements {
	list := func() corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(size)}
	}
	return &corev1.ResourceRequirements{Requests: list(), Limits: list()}
}

// resizes gives a pod as a whole that much memory.
func (w *world) resizes(name, size string) {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	p.Spec.Resources = memory(size)
	p.Generation++
	if _, err := w.client.CoreV1().Pods("ns").Update(w.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func has(size string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		return p != nil && p.Status.Resources != nil && cmp.Equal(p.Status.Resources, memory(size)) && cmp.Equal(p.Status.AllocatedResources, memory(size).Requests)
	}
}

// A pod's own resources can be resized while it runs. One that uses more than it is to have keeps that for so long, and says why.
func TestPodLevelResize(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", func(p *corev1.Pod) { p.Spec.Resources = memory("64Mi") }))
	w.await("ready", "a", ready)
	w.await("told", "a", has("64Mi"))
	id := w.runtime.Find("uid-a", "c").ID
	w.resizes("a", "128Mi")
	w.await("larger", "a", has("128Mi"))
	const text = `: {"containers":[{"name":"c","resources":{}}],"generation":2}`
	for reason, want := range map[string]string{"ResizeStarted": "Pod resize started", "ResizeCompleted": "Pod resize completed"} {
		if got := w.events(reason); !slices.Contains(got, reason+": "+want+text) {
			t.Errorf("events %q, want one of %s", got, reason)
		}
	}

	w.cgroups.refuse("uid-a", &cgroup.InUseError{Limit: 32 << 20, Usage: 50 << 20})
	w.resizes("a", "32Mi")
	const message = "cannot decrease memory limits: attempting to set pod memory limit (33554432) below current usage (52428800)"
	p := w.await("held", "a", func(p *corev1.Pod) bool {
		c := condition(p, corev1.PodResizeInProgress)
		// A look between the refusal and the resize finds the former.
		return c != nil && c.Reason == corev1.PodReasonError && cmp.Equal(p.Status.AllocatedResources, memory("32Mi").Requests)
	})
	if c := condition(p, corev1.PodResizeInProgress); c.Message != message || c.Status != corev1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
	if !cmp.Equal(p.Status.Resources, memory("128Mi")) {
		t.Errorf("resources %v", p.Status.Resources)
	}
	w.events("ResizeError")
	w.cgroups.refuse("uid-a", nil)
	w.resizes("a", "16Mi")
	p = w.await("smaller", "a", has("16Mi"))
	if c := condition(p, corev1.PodResizeInProgress); c != nil {
		t.Errorf("condition %+v stays", c)
	}
	if c := w.runtime.Find("uid-a", "c"); c.ID != id {
		t.Error("the container was made anew")
	}
}

// No container is limited to less than it uses, which could end it, and none of its pod is resized meanwhile.
func TestResize_InUse(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy())
		p.Spec.Containers[1].Name = "d"
		p.Spec.Containers[0].Resources, p.Spec.Containers[1].Resources = *memory("64Mi"), *memory("64Mi")
	}))
	w.await("ready", "a", ready)
	w.cgroups.used.Store(50 << 20)
	resize := func(first, second string) {
		t.Helper()
		p, err := w.client.CoreV1().Pods("ns").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.Containers[0].Resources, p.Spec.Containers[1].Resources = *memory(first), *memory(second)
		p.Generation++
		if _, err := w.client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const message = `cannot decrease memory limits: attempting to set container "d" memory limit (33554432) below current usage (52428800)`
	resize("128Mi", "32Mi")
	w.await("held", "a", func(p *corev1.Pod) bool {
		c := condition(p, corev1.PodResizeInProgress)
		return c != nil && c.Reason == corev1.PodReasonError && c.Message == message
	})
	if got := w.events("ResizeError"); !slices.ContainsFunc(got, func(e string) bool {
		return strings.HasPrefix(e, "ResizeError: Pod resize error: {") && strings.Contains(e, `below current usage (52428800)"}`)
	}) {
		t.Errorf("events %q", got)
	}
	if calls := w.runtime.Calls("UpdateContainer"); len(calls) > 0 {
		t.Errorf("resized were %v", calls)
	}
	resize("128Mi", "56Mi")
	w.await("resized", "a", func(p *corev1.Pod) bool {
		return condition(p, corev1.PodResizeInProgress) == nil && len(w.runtime.Calls("UpdateContainer")) == 2
	})
	w.events("ResizeCompleted")
}
