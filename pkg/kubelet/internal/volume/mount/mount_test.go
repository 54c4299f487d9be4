// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

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
