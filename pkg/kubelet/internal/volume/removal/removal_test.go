// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/machinetest"
)

// watched is a context that is asked before each removal.
type watched struct {
	context.Context
	asked func() error
}

func (w *watched) Err() error { return w.asked() }

// fill makes empty files with these names behind that of a directory.
func fill(dir string, names ...string) error {
	for _, name := range names {
		if err := os.MkdirAll(filepath.Dir(dir+name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(dir+name, nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func write(tb testing.TB, files ...string) {
	tb.Helper()
	if err := fill("", files...); err != nil {
		tb.Fatal(err)
	}
}

// below are the names of all files, links and directories in dir.
func below(tb testing.TB, dir string) (names []string) {
	tb.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "." {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return names
}

func TestTree(t *testing.T) {
	files := func(names ...string) func(tree string) error {
		return func(tree string) error { return fill(tree, names...) }
	}
	for _, c := range []struct {
		name string
		make func(tree string) error // what is to be removed
	}{
		{"nothing", func(string) error { return nil }},
		{"a file", files("")},
		{"a tree", files("/a", "/b/c", "/b/d/e", "/b/d/ f\n")},
		{"a link", func(tree string) error { return os.Symlink(filepath.Join(filepath.Dir(tree), "kept"), tree) }},
		{"a tree with links that lead out of it", func(tree string) error {
			err := fill(tree, "/a")
			for name, to := range map[string]string{"kept": "../kept", "file": "../kept/file", "nowhere": "/absent", "root": "/", "self": "."} {
				err = errors.Join(err, os.Symlink(to, filepath.Join(tree, name)))
			}
			return err
		}},
		{"a pipe and a socket", func(tree string) error {
			return errors.Join(os.Mkdir(tree, 0o755), unix.Mkfifo(tree+"/pipe", 0o644), unix.Mknod(tree+"/socket", unix.S_IFSOCK|0o644, 0))
		}},
		{"more than is read at once", func(tree string) (err error) {
			for i := range 3*batch + 1 {
				err = errors.Join(err, fill(tree, fmt.Sprintf("/%d", i)))
			}
			return err
		}},
		{"names of what is moved up", files("/.removed-A/a", "/.removed-B", strings.Repeat("/d", 3*deepest)+"/e")},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir+"/kept/file")
			if err := c.make(dir + "/tree"); err != nil {
				t.Fatal(err)
			}
			if err := Tree(t.Context(), dir+"/tree"); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{"kept", "kept/file"}, below(t, dir)); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
		})
	}
	if err := Tree(t.Context(), filepath.Join(t.TempDir(), "absent/tree")); err != nil {
		t.Errorf("in a directory that is not there: %v", err)
	}
}

// Whoever ends in the middle of it leaves the rest to another.
func TestTreeIsInterrupted(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree")
	const all = 50
	for i := range all {
		write(t, fmt.Sprintf("%s/%d/file", tree, i))
	}
	asked := 0
	ctx := &watched{t.Context(), func() error {
		if asked++; asked > 20 {
			return context.Canceled
		}
		return nil
	}}
	if err := Tree(ctx, tree); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want that of the context", err)
	}
	if left, err := os.ReadDir(tree); err != nil || len(left) == 0 || len(left) == all {
		t.Errorf("%d directories are left, %v; want some", len(left), err)
	}
	if err := Tree(t.Context(), tree); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after another attempt: %v", err)
	}
}

// A chain of directories takes no more descriptors than the process can spare.
func TestTreeIsDeep(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/tree"+strings.Repeat("/d", 5*deepest)+"/file")
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Error(err)
		}
		return len(fds)
	}
	before, most := open(), 0
	err := Tree(&watched{t.Context(), func() error { most = max(most, open()); return nil }}, dir+"/tree")
	if err != nil || most-before > deepest+10 {
		t.Errorf("%d descriptors were open, before there were %d: %v", most, before, err)
	}
	if diff := cmp.Diff([]string(nil), below(t, dir)); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// What is mounted in a tree is not removed, also where it is of the same file system, and all else is.
func TestTreeHasMounts(t *testing.T) {
	machinetest.Mounts(t)
	dir := t.TempDir()
	write(t, dir+"/data/kept", dir+"/tree/a", dir+"/tree/b/file", dir+"/tree/b/point", dir+"/tree/c/mounted/x", dir+"/tree/d/e")
	for _, point := range []string{"c/mounted", "b/point"} {
		at, source := filepath.Join(dir, "tree", point), dir+"/data"
		if point == "b/point" {
			source += "/kept"
		}
		if err := unix.Mount(source, at, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	if err := Tree(t.Context(), dir+"/tree"); err == nil {
		t.Error("what is mounted is no error")
	}
	want := []string{"data", "data/kept", "tree", "tree/b", "tree/b/point", "tree/c", "tree/c/mounted", "tree/c/mounted/kept"}
	if diff := cmp.Diff(want, below(t, dir)); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// A kernel that cannot tell mounts tells devices.
func TestOpenOnDevice(t *testing.T) {
	machinetest.Mounts(t)
	dir := t.TempDir()
	write(t, dir+"/same/x", dir+"/other/x", dir+"/file")
	if err := errors.Join(unix.Mount("tmpfs", dir+"/other", "tmpfs", 0, ""), os.Symlink("same", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir+"/other", unix.MNT_DETACH) })
	parent, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	for name, want := range map[string]error{"same": nil, "other": unix.EXDEV, "file": unix.ENOTDIR, "link": unix.ENOTDIR, "absent": unix.ENOENT} {
		fd, err := openOnDevice(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if err == nil {
			err = unix.Close(fd)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
