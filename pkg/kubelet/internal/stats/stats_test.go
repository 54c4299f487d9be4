// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	testclock "k8s.io/utils/clock/testing"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/cgroup"
	"minik8s.io/minik8s/pkg/kubelet/internal/meminfo"
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

func TestUsedMemory(t *testing.T) {
	for _, tt := range []struct {
		name, text       string
		used, workingSet uint64
	}{
		{"no huge pages", "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 600 kB\n", 700 << 10, 400 << 10},
		{"huge pages", "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 350 kB\nHugePages_Total: 2\nHugetlb: 200 kB\n", 500 << 10, 450 << 10},
		{"read while they are set aside", "MemTotal: 1000 kB\nMemFree: 900 kB\nMemAvailable: 950 kB\nHugetlb: 200 kB\n", 0, 0},
		{"more than all", "MemTotal: 1000 kB\nMemFree: 900 kB\nMemAvailable: 1001 kB\n", 100 << 10, 0},
	} {
		if used, workingSet := usedMemory(meminfo.Parse(tt.text)); used != tt.used || workingSet != tt.workingSet {
			t.Errorf("%s: %d used, of which %d in the working set, want %d and %d", tt.name, used, workingSet, tt.used, tt.workingSet)
		}
	}
}

func TestSummary(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1700000000, 0))
	volumes := []statsv1alpha1.VolumeStats{
		{Name: "v", FsStats: statsv1alpha1.FsStats{UsedBytes: new(uint64(1000))}},
		{Name: "scratch", FsStats: statsv1alpha1.FsStats{UsedBytes: new(uint64(200)), InodesUsed: new(uint64(2))}},
	}
	images := &statsv1alpha1.FsStats{CapacityBytes: new(uint64(500)), UsedBytes: new(uint64(400))}
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	pressure := &cgroup.Pressure{Some: cgroup.Stall{Total: 2 * time.Millisecond, Avg10: 1.5}}
	group := func(cpu time.Duration) cgroup.Stats {
		return cgroup.Stats{CPU: cpu, MemoryUsage: 100, WorkingSet: 60, RSS: 40, PageFaults: 3, MajorPageFaults: 1, Processes: 2, Swap: new(uint64(7))}
	}
	limited := func(s cgroup.Stats, memory uint64) cgroup.Stats {
		s.MemoryLimit = &memory
		return s
	}
	squeezed := func(s cgroup.Stats) cgroup.Stats {
		s.SwapLimit, s.CPUPressure, s.IOPressure = new(uint64(10)), pressure, pressure
		return limited(s, 80)
	}
	u := &usage{groups: map[string]cgroup.Stats{"pods": group(9e9), "u": limited(group(3e9), 100), "id": group(2e9)}}
	var given Usage
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c"}, {Name: "gone"}},
		Volumes:    []corev1.Volume{{Name: "v"}, {Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
	view := observed.New(container.Pod{UID: "u"}, nil, []*container.Container{
		{ID: "id", Name: "c", State: container.StateRunning, LogPath: log},
		{ID: "x", Name: "gone", State: container.StateRunning}, {ID: "y", Name: "c", State: container.StateExited},
	})
	c := New(Config{
		NodeName: "n", RootDir: t.TempDir(), Clock: clock, Usage: func() Usage { return given },
		Pods:     func() []*corev1.Pod { return []*corev1.Pod{pod, {ObjectMeta: metav1.ObjectMeta{UID: "ended"}}} },
		Observed: func() map[types.UID]*observed.Pod { return map[types.UID]*observed.Pod{"u": view} },
		Volumes:  func(types.UID) []statsv1alpha1.VolumeStats { return volumes },
		Layer: func(id string) (Layer, bool) {
			return Layer{clock.Now(), container.DiskUsage{Rootfs: 30, Log: 5}}, id == "id"
		},
		ImageFs: func() *statsv1alpha1.FsStats { return images },
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
	u.groups["id"] = squeezed(group(7e9))
	s := summary(false)
	now := metav1.NewTime(clock.Now())
	memory := func(available *uint64) *statsv1alpha1.MemoryStats {
		return &statsv1alpha1.MemoryStats{Time: now, AvailableBytes: available, UsageBytes: new(uint64(100)), WorkingSetBytes: new(uint64(60)), RSSBytes: new(uint64(40)), PageFaults: new(uint64(3)), MajorPageFaults: new(uint64(1))}
	}
	swap := &statsv1alpha1.SwapStats{Time: now, SwapUsageBytes: new(uint64(7))}
	psi := &statsv1alpha1.PSIStats{Some: statsv1alpha1.PSIData{Total: 2000, Avg10: 1.5}}
	node := *s.Node.Fs
	node.UsedBytes, node.InodesUsed = new(uint64(30+5+200)), new(uint64(1+2))
	logs, err := FileSystem(filepath.Dir(log), clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	logs.UsedBytes, logs.InodesUsed = new(uint64(5)), new(uint64(1))
	want := []statsv1alpha1.PodStats{{
		PodRef: statsv1alpha1.PodReference{Namespace: "ns", Name: "p", UID: "u"}, ProcessStats: &statsv1alpha1.ProcessStats{ProcessCount: new(uint64(2))},
		CPU:    &statsv1alpha1.CPUStats{Time: now, UsageCoreNanoSeconds: new(uint64(3e9)), UsageNanoCores: new(uint64(0))},
		Memory: memory(new(uint64(40))), Swap: swap, VolumeStats: volumes, EphemeralStorage: &node,
		Containers: []statsv1alpha1.ContainerStats{
			{
				Name: "c", StartTime: metav1.NewTime(time.Time{}), Memory: memory(new(uint64(20))),
				CPU:  &statsv1alpha1.CPUStats{Time: now, UsageCoreNanoSeconds: new(uint64(7e9)), UsageNanoCores: new(uint64(5e8)), PSI: psi},
				Swap: &statsv1alpha1.SwapStats{Time: now, SwapUsageBytes: new(uint64(7)), SwapAvailableBytes: new(uint64(3))},
				IO:   &statsv1alpha1.IOStats{Time: now, PSI: psi}, Logs: &logs,
				Rootfs: &statsv1alpha1.FsStats{Time: now, UsedBytes: new(uint64(30)), CapacityBytes: images.CapacityBytes},
			},
			{Name: "gone", StartTime: metav1.NewTime(time.Time{})},
		},
	}}
	// Others use the same disk at the same time.
	free := cmpopts.IgnoreFields(statsv1alpha1.FsStats{}, "AvailableBytes", "InodesFree")
	if diff := cmp.Diff(want, s.Pods, free); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if got := s.Node.SystemContainers; len(got) != 2 || got[0].Name != "kubelet" || *got[0].CPU.UsageCoreNanoSeconds == 0 || got[0].CPU.UsageNanoCores == nil ||
		*got[0].Memory.WorkingSetBytes < 1<<20 || *got[0].Memory.RSSBytes > *got[0].Memory.WorkingSetBytes || got[0].StartTime.IsZero() {
		t.Errorf("system containers are %+v", got)
	}
	if got := s.Node.SystemContainers[1:]; got[0].Name != "pods" || *got[0].CPU.UsageCoreNanoSeconds != 9e9 || got[0].Memory.AvailableBytes != nil {
		t.Errorf("system containers %+v", got)
	}
	if m := s.Node.Memory; m == nil || m.PageFaults == nil || *m.PageFaults == 0 || m.MajorPageFaults == nil || *m.MajorPageFaults > *m.PageFaults {
		t.Errorf("memory of the node %+v", m)
	}
	if r := s.Node.Runtime; r == nil || r.ImageFs != images || r.ContainerFs != images {
		t.Errorf("runtime %+v", r)
	}
	if s := summary(true); s.Node.Fs != nil || s.Node.Runtime != nil || s.Pods[0].EphemeralStorage != nil || s.Pods[0].Containers[0].Rootfs != nil || s.Pods[0].Containers[0].IO != nil || s.Node.Network != nil || s.Pods[0].VolumeStats != nil || s.Pods[0].CPU == nil || s.Pods[0].Swap == nil {
		t.Errorf("only CPU and memory: %+v", s)
	}
	u.err = errors.New("no such luck")
	if s := summary(false); len(s.Pods) != 1 || len(s.Pods[0].Containers) != 2 || s.Pods[0].CPU != nil || s.Pods[0].Containers[0].CPU != nil {
		t.Errorf("without groups: %+v", s.Pods)
	}
}
