// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestMachine(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/meminfo": "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    250 kB\n", "proc/loadavg": "0.1 0.2 0.3 2/345 678\n",
		"proc/sys/kernel/pid_max": "32768\n", "proc/sys/kernel/threads-max": "1000\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir, fail := "", errors.New("away")
	var used uint64
	var limit *uint64
	var away error
	m := &Machine{
		Root: root, Dir: root, ImageDir: func(context.Context) (string, error) { return dir, fail },
		PodMemory: func() (uint64, *uint64, error) { return used, limit, away },
	}
	o, err := m.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[Signal][2]int64{MemoryAvailable: {250 << 10, 1000 << 10}, PIDAvailable: {655, 1000}}
	for s, w := range want {
		seen := o[s]
		if got := [2]int64{seen.Available.Value(), seen.Capacity.Value()}; got != w {
			t.Errorf("%s: %v, want %v", s, got, w)
		}
	}
	if seen := o[NodeFsAvailable]; seen.Capacity.Sign() <= 0 || seen.Available.Cmp(seen.Capacity) > 0 {
		t.Errorf("node file system: %+v", seen)
	}
	if _, ok := o[AllocatableMemoryAvailable]; ok {
		t.Error("memory of pods that are not limited was observed")
	}
	away = fs.ErrNotExist
	if o, err := m.Observe(t.Context()); err != nil || o[AllocatableMemoryAvailable] != (Observation{}) {
		t.Errorf("before the first pod: %v, %v", o[AllocatableMemoryAvailable], err)
	}
	limit, away = new(uint64(100)), nil
	for use, left := range map[uint64]int64{30: 70, 130: 0} {
		used = use
		if o, err := m.Observe(t.Context()); err != nil {
			t.Fatal(err)
		} else if seen := o[AllocatableMemoryAvailable]; seen.Available.Value() != left || seen.Capacity.Value() != 100 {
			t.Errorf("pods use %d of 100: %v of %v are left", use, &seen.Available, &seen.Capacity)
		}
	}
	away = errors.New("gone")
	if o, err := m.Observe(t.Context()); err != nil || o[AllocatableMemoryAvailable] != (Observation{}) || o[PIDAvailable] == (Observation{}) {
		t.Errorf("memory of pods that cannot be read, which is no reason to observe nothing else: %v, %v", o, err)
	}
	away = nil
	if _, ok := o[ImageFsAvailable]; ok || m.Dedicated(t.Context()) {
		t.Error("a directory of images that is not known was observed")
	}
	dir, fail = filepath.Join(root, "elsewhere"), nil
	if o, err := m.Observe(t.Context()); err != nil || o[ImageFsAvailable] != (Observation{}) {
		t.Errorf("a directory of images on another machine was observed: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if o, err := m.Observe(t.Context()); err != nil || o[ImageFsAvailable] == (Observation{}) || m.Dedicated(t.Context()) {
		t.Errorf("images on the same disk: %v", err)
	}
	if available, capacity, err := m.Images(t.Context()); err != nil || available > capacity || capacity == 0 {
		t.Errorf("Images() = %d, %d, %v", available, capacity, err)
	}
	for _, name := range []string{"proc/meminfo", "proc/loadavg"} {
		if err := os.Truncate(filepath.Join(root, name), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Observe(t.Context()); err == nil {
			t.Errorf("observed although %s is empty", name)
		}
	}
}
