// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	testclock "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
)

func TestNanoCores(t *testing.T) {
	type step struct {
		after time.Duration
		cpu   uint64 // nanoseconds used so far
		want  int64  // -1: not known
	}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"one reading says nothing", []step{{0, 5e9, -1}}},
		{"a core and a half", []step{{0, 1e9, -1}, {10 * time.Second, 16e9, 1.5e9}}},
		{"sooner the last one is repeated", []step{{0, 0, -1}, {10 * time.Second, 10e9, 1e9}, {time.Second, 11e9, 1e9}, {9 * time.Second, 15e9, 5e8}}},
		{"too soon for a first one", []step{{0, 0, -1}, {time.Second, 1e9, -1}, {4 * time.Second, 5e9, 1e9}}},
		{"the counter began anew", []step{{0, 9e9, -1}, {10 * time.Second, 1e9, -1}, {10 * time.Second, 2e9, 1e8}}},
		{"idle", []step{{0, 9e9, -1}, {10 * time.Second, 9e9, 0}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r rates
			now := time.Unix(1700000000, 0)
			for i, s := range test.steps {
				now = now.Add(s.after)
				got := r.nanoCores("k", s.cpu, now)
				if (got == nil) != (s.want < 0) || got != nil && *got != uint64(s.want) {
					t.Errorf("step %d: %v, want %d", i, got, s.want)
				}
			}
			r.retain(map[string]bool{})
			if len(r.last) > 0 {
				t.Errorf("left: %v", r.last)
			}
		})
	}
}

// usage are figures by pod and by container id; what is not there is gone.
type usage struct {
	groups map[string]cgroup.Stats
	err    error
}

func (u *usage) get(key string) (cgroup.Stats, error) {
	s, ok := u.groups[key]
	switch {
	case u.err != nil:
		return s, u.err
	case !ok:
		return s, fs.ErrNotExist
	}
	return s, nil
}
func (u *usage) Pods() (cgroup.Stats, error)                              { return u.get("pods") }
func (u *usage) Pod(uid types.UID) (cgroup.Stats, error)                  { return u.get(string(uid)) }
func (u *usage) Container(_ *corev1.Pod, id string) (cgroup.Stats, error) { return u.get(id) }

func TestSummary(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1700000000, 0))
	group := func(cpu time.Duration) cgroup.Stats {
		return cgroup.Stats{CPU: cpu, MemoryUsage: 100, WorkingSet: 60, RSS: 40, PageFaults: 3, MajorPageFaults: 1, Processes: 2, Swap: new(uint64(7))}
	}
	u := &usage{groups: map[string]cgroup.Stats{"pods": group(9e9), "u": group(3e9), "id": group(2e9)}}
	var given Usage
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}, {Name: "gone"}}}}
	view := observed.New(container.Pod{UID: "u"}, nil, []*container.Container{
		{ID: "id", Name: "c", State: container.StateRunning, Resources: container.Resources{MemoryBytes: 80}},
		{ID: "x", Name: "gone", State: container.StateRunning}, {ID: "y", Name: "c", State: container.StateExited},
	})
	volumes := []statsv1alpha1.VolumeStats{{Name: "v"}}
	c := New(Config{
		NodeName: "n", RootDir: t.TempDir(), Clock: clock, Usage: func() Usage { return given },
		Pods:     func() []*corev1.Pod { return []*corev1.Pod{pod, {ObjectMeta: metav1.ObjectMeta{UID: "ended"}}} },
		Observed: func() map[types.UID]*observed.Pod { return map[types.UID]*observed.Pod{"u": view} },
		Volumes:  func(types.UID) []statsv1alpha1.VolumeStats { return volumes },
	})
	summary := func(only bool) *statsv1alpha1.Summary {
		t.Helper()
		s, err := c.Summary(t.Context(), only)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := summary(false); s.Pods == nil || len(s.Pods) > 0 || s.Node.Memory == nil || s.Node.Fs == nil || s.Node.Swap == nil || s.Node.Rlimit == nil || *s.Node.Rlimit.MaxPID <= 0 || *s.Node.Rlimit.NumOfRunningProcesses <= 0 {
		t.Errorf("before the engine has answered: %+v", s)
	}
	given = u
	summary(false)
	clock.Step(10 * time.Second)
	u.groups["id"] = group(7e9)
	s := summary(false)
	now := metav1.NewTime(clock.Now())
	memory := func(available *uint64) *statsv1alpha1.MemoryStats {
		return &statsv1alpha1.MemoryStats{Time: now, AvailableBytes: available, UsageBytes: new(uint64(100)), WorkingSetBytes: new(uint64(60)), RSSBytes: new(uint64(40)), PageFaults: new(uint64(3)), MajorPageFaults: new(uint64(1))}
	}
	swap := &statsv1alpha1.SwapStats{Time: now, SwapUsageBytes: new(uint64(7))}
	want := []statsv1alpha1.PodStats{{
		PodRef: statsv1alpha1.PodReference{Namespace: "ns", Name: "p", UID: "u"}, ProcessStats: &statsv1alpha1.ProcessStats{ProcessCount: new(uint64(2))},
		CPU:    &statsv1alpha1.CPUStats{Time: now, UsageCoreNanoSeconds: new(uint64(3e9)), UsageNanoCores: new(uint64(0))},
		Memory: memory(nil), Swap: swap, VolumeStats: volumes,
		Containers: []statsv1alpha1.ContainerStats{
			{Name: "c", StartTime: metav1.NewTime(time.Time{}), CPU: &statsv1alpha1.CPUStats{Time: now, UsageCoreNanoSeconds: new(uint64(7e9)), UsageNanoCores: new(uint64(5e8))}, Memory: memory(new(uint64(20))), Swap: swap},
			{Name: "gone", StartTime: metav1.NewTime(time.Time{})},
		},
	}}
	if diff := cmp.Diff(want, s.Pods); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if got := s.Node.SystemContainers; len(got) != 1 || got[0].Name != "pods" || *got[0].CPU.UsageCoreNanoSeconds != 9e9 {
		t.Errorf("system containers %+v", got)
	}
	if s := summary(true); s.Node.Fs != nil || s.Node.Network != nil || s.Pods[0].VolumeStats != nil || s.Pods[0].CPU == nil || s.Pods[0].Swap == nil {
		t.Errorf("only CPU and memory: %+v", s)
	}
	u.err = errors.New("no such luck")
	if s := summary(false); len(s.Pods) != 1 || len(s.Pods[0].Containers) != 2 || s.Pods[0].CPU != nil || s.Pods[0].Containers[0].CPU != nil {
		t.Errorf("without groups: %+v", s.Pods)
	}
}
