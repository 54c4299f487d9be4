// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/machinetest"
)

const table = `20 1 8:1 / / rw,relatime - ext4 /dev/root rw
21 20 0:5 / /dev rw shared:2 - devtmpfs none rw
22 20 8:1 /data /srv rw shared:3 master:1 - ext4 /dev/root rw
23 20 8:1 /var/lib/k /var/lib/k rw shared:4 - ext4 /dev/root rw
24 20 8:2 / /disk rw - ext4 /dev/b rw
25 22 8:1 /data/k /srv/k rw - ext4 /dev/root rw
26 20 8:1 /elsewhere /bound rw - ext4 /dev/root rw
`

func TestHolder(t *testing.T) {
	t.Parallel()
	all := parse(table)
	for _, tc := range []struct {
		dir, point       string
		shared, onItself bool
	}{
		{"/home", "/", false, false},
		{"/var/lib/k", "/var/lib/k", true, true},
		{"/var/lib/k2", "/", false, false},
		{"/var/lib/k/pods", "/var/lib/k", true, false},
		{"/srv/x", "/srv", true, false},
		{"/srv/k", "/srv/k", false, true},
		{"/disk", "/disk", false, false},
		{"/bound", "/bound", false, false},
		{"/", "/", false, false},
	} {
		got := holder(all, tc.dir)
		if got.point != tc.point || got.shared != tc.shared || onItself(all, tc.dir) != tc.onItself {
			t.Errorf("%s: in %+v, on itself %t", tc.dir, got, onItself(all, tc.dir))
		}
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	machinetest.Root(t, "to mount")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// Whatever the machine is like, this directory is in a private mount.
	for _, m := range []struct {
		source string
		flags  uintptr
	}{{dir, unix.MS_BIND}, {"", unix.MS_PRIVATE}} {
		if err := unix.Mount(m.source, dir, "", m.flags, ""); err != nil {
			machinetest.Lacks(t, "mounting: %v", err)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	root, disk := filepath.Join(dir, "root"), filepath.Join(dir, "disk")
	for _, d := range []string{root, disk} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := (Linux{}).Tmpfs(disk, 0o700, 0, 0); err != nil {
		t.Fatal(err)
	}
	look := func(dir string) (e entry, itself bool) {
		t.Helper()
		data, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		all := parse(string(data))
		return holder(all, dir), onItself(all, dir)
	}
	for _, d := range []string{root, disk} {
		for range 2 {
			if err := Share(d); err != nil {
				t.Fatal(err)
			}
		}
		if e, itself := look(d); e.point != d || !e.shared || itself != (d == root) {
			t.Errorf("%s is in %+v, on itself %t", d, e, itself)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (Linux{}).Tmpfs(filepath.Join(root, "sub"), 0o700, 0, 0); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{root, disk, filepath.Join(dir, "none")} {
		for range 2 {
			if err := Unshare(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if e, _ := look(filepath.Join(root, "sub")); e.point != dir {
		t.Errorf("%s is mounted", e.point)
	}
	if e, _ := look(disk); e.point != disk {
		t.Error("what was mounted by somebody else has gone")
	}
}
