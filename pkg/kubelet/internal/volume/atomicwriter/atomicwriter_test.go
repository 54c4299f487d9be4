// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package atomicwriter

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/machinetest"
)

// visible reads all files that a container sees.
func visible(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		root, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			rel, _ := filepath.Rel(root, path)
			got[filepath.Join(e.Name(), rel)] = string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func hidden(t *testing.T, dir string) (n int) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "..2*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	steps := []struct {
		name  string
		files map[string]File
		want  map[string]string
	}{
		{name: "first", files: map[string]File{"a": {Data: []byte("1"), Mode: 0o644}, "d/b": {Data: []byte("2"), Mode: 0o400}}, want: map[string]string{"a": "1", "d/b": "2"}},
		{name: "change and removal", files: map[string]File{"a": {Data: []byte("9"), Mode: 0o644}, "c": {Mode: 0o644}}, want: map[string]string{"a": "9", "c": ""}},
		{name: "paths as people write them", files: map[string]File{"./a": {Data: []byte("9"), Mode: 0o644}, "d//./b/": {Mode: 0o644}},
			want: map[string]string{"a": "9", "d/b": ""}},
		{name: "empty", want: map[string]string{}},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			if err := Write(dir, s.files, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.want, visible(t, dir)); diff != "" {
				t.Errorf("unexpected files (-want +got):\n%s", diff)
			}
			if n := hidden(t, dir); n != 1 {
				t.Errorf("%d hidden directories, want 1", n)
			}
			before, _ := os.Readlink(filepath.Join(dir, "..data"))
			if err := Write(dir, s.files, nil); err != nil {
				t.Fatal(err)
			}
			if after, _ := os.Readlink(filepath.Join(dir, "..data")); after != before {
				t.Error("the same content was written again")
			}
		})
	}
}

func TestWriteFinishesWhatAKilledOneBegan(t *testing.T) {
	dir := t.TempDir()
	files := map[string]File{"a": {Data: []byte("1"), Mode: 0o644}}
	if err := Write(dir, files, nil); err != nil {
		t.Fatal(err)
	}
	// Killed before the links were made, and another time before the switch.
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..data/gone", filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "..2020_01_01_00_00_00.1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..nowhere", filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, files, nil); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..2") {
			names = append(names, e.Name())
		}
	}
	if diff := cmp.Diff([]string{"..data", "a"}, names); diff != "" || hidden(t, dir) != 1 {
		t.Errorf("unexpected entries (-want +got), %d hidden:\n%s", hidden(t, dir), diff)
	}
}

func TestWriteOwnership(t *testing.T) {
	machinetest.Root(t, "to change owners")
	dir := t.TempDir()
	group, user := int64(2345), int64(1234)
	if err := Write(dir, map[string]File{"d/token": {Mode: 0o600, User: &user}}, &group); err != nil {
		t.Fatal(err)
	}
	check := func(path string, mode fs.FileMode, uid uint32) {
		t.Helper()
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, path), &st); err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode || st.Gid != 2345 || st.Uid != uid {
			t.Errorf("%s: %v %d:%d, want %v %d:2345", path, info.Mode(), st.Uid, st.Gid, mode, uid)
		}
	}
	check("d/token", 0o640, 1234)
	check("d", fs.ModeDir|fs.ModeSetgid|0o755, 0)
	check(".", fs.ModeDir|fs.ModeSetgid|0o777, 0)
}

func TestValidate(t *testing.T) {
	for _, path := range []string{"", "/a", "../a", "a/../../b", "..a", "..data/x", "./..data/x", strings.Repeat("a", 256), strings.Repeat("a/", 2049) + "a"} {
		if err := Write(t.TempDir(), map[string]File{path: {Mode: 0o644}}, nil); err == nil {
			t.Errorf("path %q was accepted", path)
		}
	}
	for _, path := range []string{"a", ".hidden", "a/..b", "a.b/c", "./a", "a//b", "a/"} {
		if err := Write(t.TempDir(), map[string]File{path: {Mode: 0o644}}, nil); err != nil {
			t.Errorf("path %q was refused: %v", path, err)
		}
	}
}
