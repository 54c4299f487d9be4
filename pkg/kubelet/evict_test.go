// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/container/fake"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/diskusage"
	"minik8s.io/minik8s/pkg/kubelet/internal/eviction"
)

// scratch gives a pod a volume of at most 1 KiB.
func scratch(p *corev1.Pod) {
	limit := resource.MustParse("1Ki")
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
}

const scratchExceeded = `Usage of EmptyDir volume "v" exceeds the limit "1Ki". `

// event awaits one of that reason and returns its message.
func (w *world) event(reason string) string {
	w.t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		list, err := w.client.CoreV1().Events("ns").List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for i := range list.Items {
			if list.Items[i].Reason == reason {
				return list.Items[i].Message
			}
		}
	}
	w.t.Fatalf("no event %s", reason)
	return ""
}

func disruption(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.DisruptionTarget {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// interrupted: what containers do is not done when they are stopped, and they say so.
var interrupted = fake.Config{Program: func(container.ContainerConfig) fake.Program {
	return func(ctx context.Context, p fake.Process) int {
		select {
		case <-p.Signals:
		case <-ctx.Done():
		}
		return 143
	}
}}

func TestEviction_EmptyDirLimit(t *testing.T) {
	w := newWorld(t, interrupted)
	w.start()
	w.create(newPod("a", scratch))
	w.await("ready", "a", ready)
	w.volumes.write("v", diskusage.Usage{Bytes: 1024})
	w.create(newPod("b", nil))
	w.await("ready", "b", ready) // some looks later
	w.volumes.write("v", diskusage.Usage{Bytes: 1025})
	p := w.await("failed", "a", phase(corev1.PodFailed))
	if p.Status.Reason != "Evicted" || p.Status.Message != scratchExceeded {
		t.Errorf("reason %q message %q", p.Status.Reason, p.Status.Message)
	}
	if c := disruption(p); c != nil {
		t.Errorf("a pod that was evicted for what it did is told to be disrupted: %+v", c)
	}
	if got := w.event("Evicted"); got != scratchExceeded {
		t.Errorf("event %q", got)
	}
	w.counted(1, `kubelet_evictions{eviction_signal="emptydirfs.limit"}`)
	w.await("without a volume", "a", func(*corev1.Pod) bool {
		pods, err := w.volumes.Pods()
		return err == nil && !slices.Contains(pods, types.UID("uid-a"))
	})
	w.await("without containers", "a", func(*corev1.Pod) bool { return w.runtime.Find("uid-a", "c") == nil })
	if p := w.await("there", "b", ready); p.Status.Phase != corev1.PodRunning {
		t.Errorf("the other pod: %s", describe(p))
	}
}

func TestEviction_ContainerLimit(t *testing.T) {
	w := newWorld(t, interrupted)
	w.start()
	w.create(newPod("a", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Ki")}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "img", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Mi")},
		}})
	}))
	w.await("ready", "a", ready)
	w.runtime.FailOnce("DiskUsage", errors.New("no layer"))
	w.runtime.Written(w.runtime.Find("uid-a", "c").ID, container.DiskUsage{Rootfs: 1000, Log: 25})
	p := w.await("failed", "a", phase(corev1.PodFailed))
	if want := `Container c exceeded its local ephemeral storage limit "1Ki". `; p.Status.Message != want {
		t.Errorf("message %q, want %q", p.Status.Message, want)
	}
}

// TestEviction_Restart: a kubelet that was killed when it had decided, and before anybody knew, does not run the pod again.
func TestEviction_Restart(t *testing.T) {
	w := newWorld(t, interrupted)
	var refuses atomic.Bool
	w.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refuses.Load(), nil, errors.New("connection refused")
	})
	stop := w.start()
	w.create(newPod("a", scratch))
	w.await("ready", "a", ready)
	refuses.Store(true)
	release := w.runtime.Hang("StopContainer", "")
	w.volumes.write("v", diskusage.Usage{Bytes: 4096})
	for len(w.runtime.Calls("StopContainer")) == 0 {
		<-time.After(time.Millisecond)
	}
	stop()
	release()
	w.volumes.write("v", diskusage.Usage{})
	w.runtime.Exit(w.runtime.Find("uid-a", "c").ID, 1) // it would be started again
	w.runtime.ResetCalls()
	refuses.Store(false)
	w.start()
	p := w.await("failed", "a", phase(corev1.PodFailed))
	if p.Status.Reason != "Evicted" || p.Status.Message != scratchExceeded {
		t.Errorf("reason %q message %q", p.Status.Reason, p.Status.Message)
	}
	if calls := w.runtime.Calls("StartContainer", "CreateSandbox"); len(calls) > 0 {
		t.Errorf("it was started again: %v", calls)
	}
}

// usages tells what pods use of memory.
type usages map[types.UID]uint64

func (u usages) Pods() (cgroup.Stats, error) { return cgroup.Stats{}, fs.ErrNotExist }
func (u usages) Pod(uid types.UID) (cgroup.Stats, error) {
	return cgroup.Stats{WorkingSet: u[uid]}, nil
}
func (u usages) Container(pod *corev1.Pod, _ string) (cgroup.Stats, error) {
	return cgroup.Stats{WorkingSet: u[pod.UID]}, nil
}

func TestEviction_Memory(t *testing.T) {
	w := newWorld(t, interrupted)
	w.usage = usages{"uid-a": 10 << 20, "uid-b": 30 << 20, "uid-c": 50 << 20}
	w.start()
	for _, name := range []string{"a", "b", "c"} {
		w.create(newPod(name, func(p *corev1.Pod) {
			if name == "c" { // the largest, within its request
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("60Mi")}
			}
		}))
		w.await("ready", name, ready)
	}
	w.node.observes(eviction.Observations{eviction.MemoryAvailable: {Available: resource.MustParse("90Mi"), Capacity: resource.MustParse("1Gi")}})
	p := w.await("failed", "b", phase(corev1.PodFailed))
	w.node.observes(nil)
	w.counted(1, `kubelet_evictions{eviction_signal="memory.available"}`)
	w.counted(1, `kubelet_eviction_stats_age_seconds_count{eviction_signal="memory.available"}`)
	want := "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. " +
		"Container c was using 30Mi, request is 0, has larger consumption of memory. "
	if p.Status.Reason != "Evicted" || p.Status.Message != want {
		t.Errorf("reason %q message %q, want %q", p.Status.Reason, p.Status.Message, want)
	}
	if c := disruption(p); c == nil || c.Reason != "TerminationByKubelet" || c.Status != corev1.ConditionTrue || c.Message != want {
		t.Errorf("condition %+v", c)
	}
	w.awaitNode(func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeMemoryPressure && c.Status == corev1.ConditionTrue && c.Reason == "KubeletHasInsufficientMemory"
		})
	})

	// The pressure stays for a while, and nobody comes who asks for no memory.
	w.create(newPod("d", nil))
	p = w.await("rejected", "d", phase(corev1.PodFailed))
	if p.Status.Reason != "Evicted" || !strings.HasSuffix(p.Status.Message, "The node had condition: [MemoryPressure]. ") {
		t.Errorf("reason %q message %q", p.Status.Reason, p.Status.Message)
	}
	w.counted(1, `kubelet_admission_rejections_total{reason="Evicted"}`)
	w.await("ready", "a", ready)
	w.await("ready", "c", ready)
}

// counted awaits the value of one of the kubelet's own metrics.
func (w *world) counted(want float64, name string) {
	w.t.Helper()
	var got []float64
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if got = series(w.t, w.kubelet.metrics.Gatherer(), name); len(got) == 1 && got[0] == want {
			return
		}
	}
	w.t.Errorf("%s: %v, want %v", name, got, want)
}

func (w *world) awaitNode(ok func(*corev1.Node) bool) {
	w.t.Helper()
	var last *corev1.Node
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		n, err := w.client.CoreV1().Nodes().Get(w.t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		if last = n; ok(n) {
			return
		}
	}
	w.t.Fatalf("the node stays at %+v", last.Status.Conditions)
}

func TestPreemption(t *testing.T) {
	w := newWorld(t, interrupted)
	w.start()
	half := func(p *corev1.Pod) {
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		memory := n.Status.Allocatable[corev1.ResourceMemory]
		memory.Set(memory.Value()/2 + 1)
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: memory}
	}
	w.create(newPod("first", nil))
	w.await("ready", "first", ready) // the node is there
	w.create(newPod("large", half))
	w.await("ready", "large", ready)
	w.create(newPod("critical", func(p *corev1.Pod) { half(p); p.Spec.Priority = new(int32(2000000000)) }))
	w.await("ready", "critical", ready)
	p := w.await("failed", "large", phase(corev1.PodFailed))
	c := disruption(p)
	if p.Status.Reason != "Preempting" || p.Status.Message != "Preempted in order to admit critical pod" || c == nil || c.Reason != "TerminationByKubelet" {
		t.Errorf("%s, condition %+v", describe(p), c)
	}
	w.counted(1, `kubelet_preemptions{preemption_signal="memory"}`)
	if p := w.await("there", "first", ready); p.Status.Phase != corev1.PodRunning {
		t.Errorf("the other pod: %s", describe(p))
	}
}

// TestEviction_NothingCanBeNoted: a disk on which nothing can be written any more keeps no pod from being ended.
func TestEviction_NothingCanBeNoted(t *testing.T) {
	w := newWorld(t, interrupted)
	w.start()
	w.create(newPod("a", scratch))
	w.await("ready", "a", ready)
	if err := os.Rename(filepath.Join(w.dir, "checkpoints"), filepath.Join(w.dir, "away")); err != nil {
		t.Fatal(err)
	}
	w.volumes.write("v", diskusage.Usage{Bytes: 4096})
	if p := w.await("failed", "a", phase(corev1.PodFailed)); p.Status.Reason != "Evicted" {
		t.Errorf("reason %q", p.Status.Reason)
	}
}
