// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestFitError(t *testing.T) {
	statuses := NewNodeStatuses(NewStatus(UnschedulableAndUnresolvable, "absent"))
	statuses.Set("a", NewStatus(Unschedulable, "Insufficient cpu", "Insufficient memory"))
	statuses.Set("b", NewStatus(Unschedulable, "Insufficient cpu"))
	for _, tc := range []struct {
		name string
		err  FitError
		want string
	}{
		{"reasons are counted and sorted", FitError{NumAllNodes: 2, Statuses: statuses}, "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."},
		{"nodes that were not looked at", FitError{NumAllNodes: 4, Statuses: statuses}, "0/4 nodes are available: 1 Insufficient memory, 2 Insufficient cpu, 2 absent."},
		{"prefilter", FitError{NumAllNodes: 2, Statuses: statuses, PreFilterMsg: `persistentvolumeclaim "x" not found`}, `0/2 nodes are available: persistentvolumeclaim "x" not found.`},
		{"postfilter", FitError{NumAllNodes: 2, PreFilterMsg: "a", PostFilterMsg: "preemption: b."}, "0/2 nodes are available: a. preemption: b."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.err.Error(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestForEach(t *testing.T) {
	for _, n := range []int{0, 1, serialBelow, 1000} {
		seen := make([]atomic.Int32, n)
		ForEach(n, func(i int) bool {
			seen[i].Add(1)
			return true
		})
		for i := range seen {
			if c := seen[i].Load(); c != 1 {
				t.Fatalf("%d pieces: piece %d was done %d times", n, i, c)
			}
		}
	}
	var done atomic.Int32
	ForEach(100_000, func(int) bool { return done.Add(1) < 10 })
	if n := done.Load(); n < 10 || n >= 10+parallelism {
		t.Errorf("%d pieces were done after the stop at 10", n)
	}
}

func TestPodActions(t *testing.T) {
	base := func() *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		return p
	}
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   Action
	}{
		{"nothing", func(*corev1.Pod) {}, 0},
		{"status", func(p *corev1.Pod) { p.Status.Message = "x" }, 0},
		{"labels", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, UpdateLabels},
		{"gate", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }, UpdateGates},
		{"toleration", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{}} }, UpdateTolerations},
		{"less CPU", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		}, UpdateScaleDown},
		{"more CPU", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := base()
			tc.change(changed)
			if got := PodActions(base(), changed); got != tc.want {
				t.Errorf("got %b, want %b", got, tc.want)
			}
		})
	}
}

type named string

func (n named) Name() string { return string(n) }

func TestNewProfile_RejectsBadLists(t *testing.T) {
	factory := func(name string) Factory { return func(Handle) (Plugin, error) { return named(name), nil } }
	for _, tc := range []struct {
		name, want string
		entries    []Entry
	}{
		{"wrong name", `plugin "a" calls itself "b"`, []Entry{{Name: "a", New: factory("b")}}},
		{"no extension point", `plugin "a" implements no extension point`, []Entry{{Name: "a", New: factory("a")}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := NewProfile(nil, tc.entries); err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
