// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package subpath

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"minik8s.io/minik8s/pkg/kubelet/internal/volume/mount"
	"minik8s.io/minik8s/pkg/machinetest"
)

func TestPrepareStaysInside(t *testing.T) {
	base := t.TempDir()
	volume := filepath.Join(base, "volume")
	must(t, os.MkdirAll(filepath.Join(volume, "..ts", "deep"), 0o755))
	must(t, os.WriteFile(filepath.Join(volume, "..ts", "key"), []byte("v"), 0o644))
	must(t, os.WriteFile(filepath.Join(base, "outside"), []byte("secret"), 0o644))
	for link, to := range map[string]string{
		"..data": "..ts", "key": "..data/key", "up": "../outside", "abs": "/etc/passwd", "parent": "..", "loop": "loop",
	} {
		must(t, os.Symlink(to, filepath.Join(volume, link)))
	}
	tests := []struct {
		name, sub string
		ok        bool
	}{
		{name: "through the links of a config map", sub: "key", ok: true},
		{name: "directory", sub: "..ts/deep", ok: true},
		{name: "missing is made", sub: "new/er", ok: true},
		{name: "relative link out", sub: "up"},
		{name: "absolute link", sub: "abs"},
		{name: "below a link out", sub: "parent/outside"},
		{name: "missing below a link out", sub: "parent/made"},
		{name: "dots", sub: "../outside"},
		{name: "absolute", sub: "/etc"},
		{name: "loop", sub: "loop"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			m := &mount.Fake{}
			target := filepath.Join(base, "targets", tc.name)
			err := Prepare(m, volume, tc.sub, target)
			if (err == nil) != tc.ok {
				t.Fatalf("Prepare: %v, want ok %v", err, tc.ok)
			}
			if _, mounted := m.Sources[target]; mounted != tc.ok {
				t.Errorf("mounted %v, want %v", mounted, tc.ok)
			}
		})
	}
	if _, err := os.Lstat(filepath.Join(base, "made")); err == nil {
		t.Error("a directory was made outside of the volume")
	}
}

func TestPrepareBinds(t *testing.T) {
	machinetest.Mounts(t)
	base := t.TempDir()
	volume, target := filepath.Join(base, "v"), filepath.Join(base, "pod", "0")
	must(t, os.Mkdir(volume, 0o755))
	must(t, os.WriteFile(filepath.Join(volume, "f"), []byte("one"), 0o644))
	var m mount.Linux
	t.Cleanup(func() { _ = m.Unmount(target) })
	for range 2 {
		must(t, Prepare(m, volume, "f", target))
	}
	if list, err := m.Under(base); err != nil || len(list) != 1 {
		t.Errorf("mounts %v, %v; want one", list, err)
	}
	// Replaced, as an update of a config map does: the next start of a container sees the new file.
	must(t, os.WriteFile(filepath.Join(volume, "f2"), []byte("two"), 0o644))
	must(t, os.Rename(filepath.Join(volume, "f2"), filepath.Join(volume, "f")))
	must(t, Prepare(m, volume, "f", target))
	if data, err := os.ReadFile(target); err != nil || string(data) != "two" {
		t.Errorf("target holds %q, %v", data, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What is made on the way to a subPath has all the permissions of the volume, for the group that owns it too.
func TestPrepare_Modes(t *testing.T) {
	volume := t.TempDir()
	const mode = fs.ModeDir | 0o777 | fs.ModeSetgid | fs.ModeSticky
	if err := os.Chmod(volume, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(volume, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(volume, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(&mount.Fake{}, volume, "there/made/below/", filepath.Join(t.TempDir(), "target")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{"there": fs.ModeDir | 0o700, "there/made": mode, "there/made/below": mode} {
		info, err := os.Stat(filepath.Join(volume, path))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}
