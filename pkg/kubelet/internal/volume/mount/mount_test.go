// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/machinetest"
)

func TestUnder(t *testing.T) {
	const info = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" +
		"30 22 0:40 / /var/lib/pods/a rw - tmpfs tmpfs rw\n" +
		"31 30 0:41 / /var/lib/pods/a/b\\040c rw - tmpfs tmpfs rw\n" +
		"32 22 0:42 / /var/lib/pods/ab rw - tmpfs tmpfs rw\n"
	want := []string{"/var/lib/pods/a/b c", "/var/lib/pods/a"}
	if diff := cmp.Diff(want, under(info, "/var/lib/pods/a")); diff != "" {
		t.Errorf("unexpected mount points (-want +got):\n%s", diff)
	}
}

func TestLinux(t *testing.T) {
	machinetest.Mounts(t)
	var m Linux
	dir := filepath.Join(t.TempDir(), "v")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := m.Tmpfs(dir, 0o777|os.ModeSetgid, 77, 1<<20); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Unmount(dir) })
	info, err := os.Stat(dir)
	if err != nil || info.Mode() != os.ModeDir|os.ModeSetgid|0o777 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if ok, err := m.IsMountPoint(dir); !ok || err != nil {
		t.Errorf("IsMountPoint: %v, %v", ok, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 2<<20), 0o644); err == nil {
		t.Error("the size is not limited")
	}
	if swaps(t, dir) && !swaps(t, noSwap(t)) {
		t.Error("it gets into swap")
	}
	if kept := !swaps(t, dir); kept != CanKeepOffSwap() {
		t.Errorf("it is kept off swap: %t, and can be: %t", kept, CanKeepOffSwap())
	}
	if list, err := m.Under(filepath.Dir(dir)); err != nil || len(list) != 1 || list[0] != dir {
		t.Errorf("Under: %v, %v", list, err)
	}
	for range 2 {
		if err := m.Unmount(dir); err != nil {
			t.Errorf("Unmount: %v", err)
		}
	}
	if ok, err := m.IsMountPoint(dir); ok || err != nil {
		t.Errorf("IsMountPoint after Unmount: %v, %v", ok, err)
	}
}

// noSwap mounts a tmpfs that never gets into swap, if this kernel has such.
func noSwap(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if unix.Mount("tmpfs", dir, "tmpfs", 0, "noswap") == nil {
		t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	}
	return dir
}

// swaps says whether what is mounted on dir may get into swap.
func swaps(t *testing.T, dir string) bool {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); f[4] == dir {
			return !strings.Contains(f[len(f)-1], "noswap")
		}
	}
	return true
}
