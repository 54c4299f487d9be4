// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package fsgroup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/plugin"
	"minik8s.io/minik8s/pkg/machinetest"
)

// What nobody may change, such as the snapshots that a server shows in a volume, is no reason for its pod to wait.
func TestApply_UnchangeablePart(t *testing.T) {
	machinetest.Mounts(t)
	const group = 4711
	dir := t.TempDir()
	snapshots, file := filepath.Join(dir, ".snapshot"), filepath.Join(dir, "file")
	err := errors.Join(os.Mkdir(snapshots, 0o755), os.WriteFile(file, nil, 0o600), unix.Mount("tmpfs", snapshots, "tmpfs", unix.MS_RDONLY, ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(snapshots, 0); err != nil {
			t.Error(err)
		}
	})
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{FSGroup: new(int64(group))}}}
	if err := Apply(t.Context(), plugin.Mount{Pod: pod}, dir, func(string) { t.Error("it is slow") }); err != nil {
		t.Error(err)
	}
	for path, mode := range map[string]fs.FileMode{dir: dirMode, file: fileMode} {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Gid != group {
			t.Errorf("%s is of group %d, %v", path, st.Gid, err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode()&mode != mode {
			t.Errorf("the mode of %s is %v, %v", path, info.Mode(), err)
		}
	}
}

// Who gives up, because the pod goes or the kubelet ends, does not wait for all files, and what was not finished is not taken for done.
func TestApply_GivenUp(t *testing.T) {
	machinetest.Root(t, "to change owners")
	const group = 4711
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{FSGroup: new(int64(group)), FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch)}}}
	given := func(path string) bool {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Gid == group
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Apply(ctx, plugin.Mount{Pod: pod}, dir, func(string) {}); !errors.Is(err, context.Canceled) || given(dir) || given(filepath.Join(dir, "file")) {
		t.Errorf("given up: %v", err)
	}
	if err := Apply(t.Context(), plugin.Mount{Pod: pod}, dir, func(string) {}); err != nil || !given(dir) || !given(filepath.Join(dir, "file")) {
		t.Errorf("again: %v", err)
	}
}

// That a volume is given to a group is told only if it takes long, and once.
func TestPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for takes, want := range map[time.Duration]int32{29 * time.Second: 0, 5 * time.Minute: 1} {
			var told atomic.Int32
			err := patiently(func() error { <-time.After(takes); return errors.New("done") }, func() { told.Add(1) })
			<-time.After(time.Hour)
			if err == nil || told.Load() != want {
				t.Errorf("%v: told %d times, %v", takes, told.Load(), err)
			}
		}
	})
}
