// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/machinetest"
)

// TestKernel runs on the machine's own groups, with both drivers where systemd runs.
func TestKernel(t *testing.T) {
	drivers := []string{"cgroupfs"}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		drivers = append(drivers, "systemd")
	}
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) { testKernel(t, driver) })
	}
}

func testKernel(t *testing.T, driver string) {
	t.Helper()
	version := "1"
	probe := "/sys/fs/cgroup/cpu"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		version, probe = "2", "/sys/fs/cgroup"
	}
	machinetest.Root(t, "to make cgroups")
	root := fmt.Sprintf("/minik8s-test-%d", os.Getpid())
	if err := os.Mkdir(filepath.Join(probe, root), 0o755); err != nil {
		machinetest.Lacks(t, "needs writable cgroups: %v", err)
	}
	m, err := New(Config{Root: root, Driver: driver, Version: version, PodPidsLimit: 50})
	if err != nil {
		t.Fatal(err)
	}
	if driver == "systemd" {
		if err := os.Remove(filepath.Join(probe, root)); err != nil {
			t.Fatal(err)
		}
		root = m.classPath(corev1.PodQOSGuaranteed)
	}
	t.Cleanup(func() {
		if err := m.Purge(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(probe, root)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left after a purge: %v", err)
		}
	})
	burstable, guaranteed := pod(req("500m/-", "1/64Mi")), pod(req("1/1Gi", "1/1Gi"))
	guaranteed.UID = "3-4"
	for _, p := range []*corev1.Pod{burstable, guaranteed, burstable} {
		if _, err := m.EnsurePod(p); err != nil {
			t.Fatal(err)
		}
	}
	if version == "1" && driver == "cgroupfs" {
		got := contents(t, "/sys/fs/cgroup", "cpu"+root+"/burstable/pod1-2/cpu.shares", "cpu"+root+"/burstable/cpu.shares",
			"cpu"+root+"/burstable/pod1-2/cpu.cfs_quota_us", "memory"+root+"/burstable/pod1-2/memory.limit_in_bytes", "pids"+root+"/burstable/pod1-2/pids.max")
		var values []string
		for name, v := range got {
			values = append(values, filepath.Base(name)+"="+strings.TrimSpace(v))
		}
		slices.Sort(values)
		if diff := cmp.Diff([]string{"cpu.cfs_quota_us=100000", "cpu.shares=512", "cpu.shares=512", "memory.limit_in_bytes=67108864", "pids.max=50"}, values); diff != "" {
			t.Error(diff)
		}
	}
	if version == "2" {
		file, _ := m.podPath("1-2", corev1.PodQOSBurstable)
		want := map[string]string{"cpu.weight": "20", "cpu.max": "100000 100000", "memory.max": "67108864", "pids.max": "50"}
		for name, value := range want {
			got := contents(t, filepath.Join("/sys/fs/cgroup", file), name)
			if strings.TrimSpace(got[name]) != value {
				t.Errorf("%s is %q, want %q", name, got[name], value)
			}
		}
	}
	// Larger limits, and none at all, after smaller ones.
	burstable.Spec.Containers[0].Resources = req("1/-", "2/-")
	if _, err := m.EnsurePod(burstable); err != nil {
		t.Fatal(err)
	}
	// Smaller ones, as soon as a container has got less.
	if version == "1" && driver == "cgroupfs" {
		group := filepath.Join("/sys/fs/cgroup/cpu", root, "burstable/pod1-2")
		set := func(name, value string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(group, name), []byte(value), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(group, "c"), 0o755); err != nil {
			t.Fatal(err)
		}
		set("c/cpu.cfs_quota_us", "200000")
		burstable.Spec.Containers[0].Resources = req("500m/-", "1/-")
		for _, want := range []string{"200000", "100000"} {
			if _, err := m.EnsurePod(burstable); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, group, "cpu.cfs_quota_us"); strings.TrimSpace(got["cpu.cfs_quota_us"]) != want {
				t.Errorf("quota %v, want %s", got, want)
			}
			set("c/cpu.cfs_quota_us", "50000")
		}
	}
	uids, err := m.Pods()
	slices.Sort(uids)
	if err != nil || !slices.Equal(uids, []types.UID{"1-2", "3-4"}) {
		t.Errorf("Pods() = %v, %v", uids, err)
	}
	if s, err := m.PodStats("1-2"); err != nil || s.Time.IsZero() {
		t.Errorf("PodStats() = %+v, %v", s, err)
	}
	file, err := m.PodPath("1-2")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"/", file} {
		d, err := m.Details(p)
		if err != nil || d.Time.IsZero() || d.Created.IsZero() || d.CPUTotal == nil || d.MemoryUsage == nil || d.WorkingSet == nil || p != "/" && (d.QuotaMicros == nil || d.MemoryLimit == nil) {
			t.Errorf("Details(%q) = %+v, %v", p, d, err)
		}
	}
	if _, err := m.Details(m.ContainerPath(file, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent container: %v", err)
	}
	if s, err := m.NodeStats(); err != nil || s.Time.IsZero() {
		t.Errorf("NodeStats() = %+v, %v", s, err)
	}
	for range 2 {
		if err := m.RemovePod("1-2"); err != nil {
			t.Fatal(err)
		}
	}
	if uids, err := m.Pods(); err != nil || !slices.Equal(uids, []types.UID{"3-4"}) {
		t.Errorf("after removal: %v, %v", uids, err)
	}
	if _, err := m.Details(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("details of a pod that was removed: %v", err)
	}
	if _, err := m.PodPath("1-2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("path of a pod that was removed: %v", err)
	}
}
