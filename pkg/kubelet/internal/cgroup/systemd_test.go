// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// slicesOf is a systemd that makes the directories of slices, and a file in each that says which limits it was asked for.
type slicesOf struct {
	mount string
	fail  error
}

func (s *slicesOf) ensure(path string, r limits) error {
	if s.fail != nil {
		return s.fail
	}
	dir := filepath.Join(s.mount, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "asked"), fmt.Append(nil, r.CPUShares, r.MemoryBytes, r.PidsLimit), 0o600)
}

func (s *slicesOf) remove(path string) error {
	if s.fail != nil {
		return s.fail
	}
	return os.RemoveAll(filepath.Join(s.mount, path))
}

// With systemd the limits of pods and classes are systemd's and those in the files, and slices end with their pods.
func TestSystemd(t *testing.T) {
	mount := t.TempDir()
	m, err := New(Config{Root: "/minik8s-a", Driver: "systemd", Version: "2", MountPoint: mount, PodPidsLimit: 100})
	if err != nil {
		t.Fatal(err)
	}
	bus := &slicesOf{mount: mount, fail: errors.New("no answer")}
	m.driver = bus
	p := pod(req("500m/-", "1/64Mi"))
	if _, err := m.EnsurePod(p); !errors.Is(err, bus.fail) {
		t.Errorf("without systemd: %v", err)
	}
	bus.fail = nil
	parent, err := m.EnsurePod(p)
	if err != nil || parent != "minik8s_a-burstable-pod1_2.slice" || m.Parent(p) != parent {
		t.Errorf("got %q, %v", parent, err)
	}
	class := "minik8s_a.slice/minik8s_a-burstable.slice/"
	group := class + parent + "/"
	want := map[string]string{
		class + "asked": "512 0 0", class + "cpu.weight": "20", group + "asked": "512 67108864 100",
		group + "cpu.weight": "20", group + "cpu.max": "100000 100000", group + "memory.max": "67108864", group + "pids.max": "100",
	}
	var names []string
	for n := range want {
		names = append(names, n)
	}
	if diff := cmp.Diff(want, contents(t, mount, names...)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if uids, err := m.Pods(); err != nil || !slices.Equal(uids, []types.UID{"1-2"}) {
		t.Errorf("Pods() = %v, %v", uids, err)
	}
	bus.fail = errors.New("no answer")
	if err := m.RemovePod("1-2"); !errors.Is(err, bus.fail) {
		t.Errorf("removal without systemd: %v", err)
	}
	bus.fail = nil
	for range 2 {
		if err := m.RemovePod("1-2"); err != nil {
			t.Fatal(err)
		}
	}
	if uids, err := m.Pods(); err != nil || len(uids) > 0 {
		t.Errorf("after removal: %v, %v", uids, err)
	}
	if err := m.Purge(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(mount); err != nil || len(left) > 0 {
		t.Errorf("after a purge: %v, %v", left, err)
	}
}

func TestSystemdNames(t *testing.T) {
	m, err := New(Config{Root: "/minik8s-a", Driver: "systemd", Version: "2"})
	if err != nil {
		t.Fatal(err)
	}
	if file, parent := m.podPath("1-2", corev1.PodQOSGuaranteed); file != "/minik8s_a.slice/minik8s_a-pod1_2.slice" || parent != "minik8s_a-pod1_2.slice" {
		t.Errorf("got %q, %q", file, parent)
	}
}

func TestSliceProperties(t *testing.T) {
	for _, test := range []struct {
		name                       string
		resources                  container.Resources
		memory                     *protection
		weight, quota, most, tasks uint64
	}{
		{"none", container.Resources{CPUShares: 2}, nil, 1, math.MaxUint64, math.MaxUint64, math.MaxUint64},
		{"all", container.Resources{CPUShares: 1024, CPUQuota: 150_000, CPUPeriod: 100_000, MemoryBytes: 64, PidsLimit: 9}, nil, 39, 1_500_000, 64, 9},
		{"less than a hundredth", container.Resources{CPUShares: 2, CPUQuota: 1_001, CPUPeriod: 100_000}, nil, 1, 20_000, math.MaxUint64, math.MaxUint64},
		{"memory is kept", container.Resources{CPUShares: 2}, &protection{min: 5, low: 6, high: 7}, 1, math.MaxUint64, math.MaxUint64, math.MaxUint64},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := map[string]any{}
			l := limits{test.resources, ptr.Deref(test.memory, protection{})}
			for _, p := range (systemd{memoryQoS: test.memory != nil}).properties(l) {
				got[p.Name] = p.Value.Value()
			}
			want := map[string]any{
				"CPUAccounting": true, "MemoryAccounting": true, "TasksAccounting": true, "IOAccounting": true,
				"CPUWeight": test.weight, "CPUQuotaPerSecUSec": test.quota, "MemoryMax": test.most, "TasksMax": test.tasks,
			}
			if m := test.memory; m != nil {
				want["MemoryMin"], want["MemoryLow"], want["MemoryHigh"] = uint64(m.min), uint64(m.low), uint64(m.high)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
