// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	w.series(`kubelet_container_requested_resizes_total{operation="increase",requirement="limits",resource="memory"} 2`)
	w.series(`kubelet_container_requested_resizes_total{operation="decrease",requirement="requests",resource="memory"} 1`)
	w.series(`kubelet_pod_resize_duration_milliseconds_count{success="true"} 1`)
}

// series awaits one of the kubelet's metrics, by name and labels.
func (w *world) series(want string) {
	w.t.Helper()
	var text string
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		rec := httptest.NewRecorder()
		promhttp.HandlerFor(w.kubelet.metrics.Gatherer(), promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		if text = rec.Body.String(); strings.Contains(text, "\n"+want+"\n") {
			return
		}
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "resize") && !strings.Contains(line, "bucket") {
			w.t.Log(line)
		}
	}
	w.t.Errorf("no metric %s", want)
}

// A resize that the node has no room for is deferred, also if it never will have: the event says of what there is too little. It is looked
// at again as soon as another pod has less.
func TestResize_Deferred(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	gigabytes := func(p *corev1.Pod, n int64) {
		list := corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(n<<30, resource.BinarySI)}
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: list}
	}
	for _, name := range []string{"a", "b"} {
		w.create(newPod(name, func(p *corev1.Pod) { gigabytes(p, 1) }))
		w.await("ready", name, ready)
	}
	n, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	total := n.Status.Allocatable.Memory().Value() >> 30
	resize := func(name string, n int64) {
		t.Helper()
		p, err := w.client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		gigabytes(p, n)
		p.Generation++
		if _, err := w.client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pending := func(p *corev1.Pod) *corev1.PodCondition { return condition(p, corev1.PodResizePending) }
	resize("a", total+1)
	p := w.await("deferred", "a", func(p *corev1.Pod) bool { return pending(p) != nil })
	if c := pending(p); c.Reason != corev1.PodReasonDeferred || !strings.HasPrefix(c.Message, "Node didn't have enough resource: memory, requested: ") {
		t.Errorf("condition %+v", c)
	}
	if got := w.events("ResizeDeferred"); !slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "ResizeDeferred: Pod resize OutOfmemory: {") }) {
		t.Errorf("events %q", got)
	}
	resize("a", 1)
	w.await("reverted", "a", func(p *corev1.Pod) bool { return pending(p) == nil })
	w.series(`kubelet_pod_deferred_resize_duration_seconds_count{priority_bucket="normal",resolution="reverted"} 1`)

	resize("b", total-1)
	w.await("larger", "b", func(p *corev1.Pod) bool {
		return p.Status.Resources != nil && p.Status.Resources.Requests.Memory().Value() == (total-1)<<30
	})
	resize("a", 2)
	w.await("deferred", "a", func(p *corev1.Pod) bool { return pending(p) != nil })
	resize("b", 1)
	w.await("larger", "a", func(p *corev1.Pod) bool {
		return pending(p) == nil && p.Status.Resources != nil && p.Status.Resources.Requests.Memory().Value() == 2<<30
	})
	w.series(`kubelet_pod_deferred_accepted_resizes_total{retry_trigger="pod_resized"} 1`)
	w.series(`kubelet_pod_deferred_resize_duration_seconds_count{priority_bucket="normal",resolution="accepted"} 1`)
}

// An init container is resized while it runs, as others are.
func TestResize_InitContainer(t *testing.T) {
	w := newWorld(t, fake.Config{})
	w.start()
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "img", Resources: *memory("64Mi")}}
	}))
	of := func(p *corev1.Pod) *corev1.ContainerStatus {
		if p == nil || len(p.Status.InitContainerStatuses) == 0 {
			return &corev1.ContainerStatus{}
		}
		return &p.Status.InitContainerStatuses[0]
	}
	p := w.await("initializing", "a", func(p *corev1.Pod) bool { return of(p).State.Running != nil })
	id := of(p).ContainerID
	p.Spec.InitContainers[0].Resources = *memory("128Mi")
	p.Generation++
	if _, err := w.client.CoreV1().Pods("ns").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p = w.await("resized", "a", func(p *corev1.Pod) bool {
		return cmp.Equal(of(p).Resources, memory("128Mi")) && condition(p, corev1.PodResizeInProgress) == nil
	})
	if calls := w.runtime.Calls("UpdateContainer"); len(calls) != 1 || of(p).ContainerID != id {
		t.Errorf("resized were %v; the container is %s, was %s", calls, of(p).ContainerID, id)
	}
}
