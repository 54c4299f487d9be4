// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"minik8s.io/minik8s/pkg/machinetest"
)

// loop returns a device of 16 MiB that nothing was ever written to.
func loop(t *testing.T) string {
	t.Helper()
	machinetest.Mounts(t)
	machinetest.Programs(t, "losetup", "mkfs.ext4", "blkid", "fsck")
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 16<<20); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		machinetest.Lacks(t, "making a loop device: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return device
}

// Two who come at once get the same file system, which keeps what is written, and none is made for who may only read.
func TestDevice(t *testing.T) {
	device := loop(t)
	var m Linux
	base := t.TempDir()
	dirs := []string{filepath.Join(base, "a"), filepath.Join(base, "b")}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Unmount(dir) })
	}
	if err := m.Device(t.Context(), device, dirs[0], "ext4", []string{"ro"}); err == nil {
		t.Error("a file system was made by who may only read")
	}
	var wg sync.WaitGroup
	for _, dir := range dirs {
		wg.Go(func() {
			if err := m.Device(t.Context(), device, dir, "ext4", []string{"noatime"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := os.WriteFile(filepath.Join(dirs[0], "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dirs[1], "f")); err != nil || string(got) != "x" {
		t.Errorf("the other has %q, %v", got, err)
	}
	for _, dir := range dirs {
		if err := m.Unmount(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Device(t.Context(), device, dirs[1], "ext4", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dirs[1], "f")); err != nil || string(got) != "x" {
		t.Errorf("later there is %q, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Device(ctx, device, dirs[0], "ext4", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
