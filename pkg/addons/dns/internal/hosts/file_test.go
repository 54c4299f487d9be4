// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/machinetest"
)

func newFile(t *testing.T, text string) File {
	t.Helper()
	dir := t.TempDir()
	f := File{Path: filepath.Join(dir, "hosts"), Lock: filepath.Join(dir, "lock")}
	if err := os.WriteFile(f.Path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f File) want(t *testing.T, text string) {
	t.Helper()
	got, err := os.ReadFile(f.Path)
	if err != nil || string(got) != text {
		t.Errorf("the file is %q, %v, want %q", got, err, text)
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(f.Path), ".hosts.minik8s")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left beside: %v", err)
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		t.Fatal(err)
	}
	return s.Ino
}

func to(text string) func(string) string { return func(string) string { return text } }

func TestEdit(t *testing.T) {
	t.Parallel()
	f := newFile(t, "old\n")
	if err := unix.Setxattr(f.Path, "user.minik8s", []byte("kept"), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
		t.Fatal(err)
	}
	had, before := make([]byte, 10), inode(t, f.Path)
	n, hadErr := unix.Getxattr(f.Path, "user.minik8s", had)
	if err := os.WriteFile(filepath.Join(filepath.Dir(f.Path), ".hosts.minik8s"), []byte("of a process that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Edit(t.Context(), to("new and longer\n")); err != nil {
		t.Fatal(err)
	}
	f.want(t, "new and longer\n")
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("it is %v, %v", info.Mode(), err)
	}
	if got := make([]byte, 10); hadErr == nil {
		if m, err := unix.Getxattr(f.Path, "user.minik8s", got); err != nil || string(got[:m]) != string(had[:n]) {
			t.Errorf("its attribute is %q, %v", got[:m], err)
		}
	}
	if inode(t, f.Path) == before {
		t.Error("it was not replaced")
	}
}

func TestEdit_NothingToDo(t *testing.T) {
	t.Parallel()
	f := newFile(t, "same\n")
	before := inode(t, f.Path)
	if err := f.Edit(t.Context(), func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	if inode(t, f.Path) != before {
		t.Error("it was written")
	}
	if _, err := os.Stat(f.Lock); !errors.Is(err, os.ErrNotExist) {
		t.Error("it was locked")
	}
	missing := File{Path: filepath.Join(t.TempDir(), "hosts"), Lock: f.Lock}
	if err := missing.Edit(t.Context(), to("")); err != nil {
		t.Errorf("nothing of no file: %v", err)
	}
	if err := missing.Edit(t.Context(), to("x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is made: %v", err)
	}
}

// By a link it is the file itself that is replaced, and one with two names is written where it is.
func TestEdit_Links(t *testing.T) {
	t.Parallel()
	f := newFile(t, "old\n")
	link := File{Path: filepath.Join(t.TempDir(), "link"), Lock: f.Lock}
	if err := os.Symlink(f.Path, link.Path); err != nil {
		t.Fatal(err)
	}
	if err := link.Edit(t.Context(), to("new\n")); err != nil {
		t.Fatal(err)
	}
	f.want(t, "new\n")
	if target, err := os.Readlink(link.Path); err != nil || target != f.Path {
		t.Errorf("the link is %q, %v", target, err)
	}
	if err := os.Link(f.Path, f.Path+"2"); err != nil {
		t.Fatal(err)
	}
	before := inode(t, f.Path)
	if err := f.Edit(t.Context(), to("n\n")); err != nil {
		t.Fatal(err)
	}
	f.want(t, "n\n")
	if inode(t, f.Path) != before {
		t.Error("it has lost its other name")
	}
}

// A file that is a mount cannot be replaced.
func TestEdit_Mounted(t *testing.T) {
	machinetest.Root(t, "mounting")
	machinetest.Mounts(t)
	f := newFile(t, "one\ntwo\nthree\n")
	if err := unix.Mount(f.Path, f.Path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(f.Path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	before := inode(t, f.Path)
	for _, text := range []string{"one\ntwo\nthree\nfour\n", "one\n", "one\nother\n"} {
		if err := f.Edit(t.Context(), to(text)); err != nil {
			t.Fatal(err)
		}
		f.want(t, text)
	}
	if inode(t, f.Path) != before {
		t.Error("it was replaced")
	}
}

// Who takes no lock and is faster does not lose what he wrote.
func TestEdit_SomebodyElse(t *testing.T) {
	t.Parallel()
	f := newFile(t, "old\n")
	calls := 0
	err := f.Edit(t.Context(), func(text string) string {
		if calls++; calls == 2 { // after it was read with the lock
			if err := os.WriteFile(f.Path, []byte(text+"theirs\n"), 0o600); err != nil {
				t.Error(err)
			}
		}
		return text + "ours\n"
	})
	if err != nil {
		t.Fatal(err)
	}
	f.want(t, "old\ntheirs\nours\n")
}

// Many clusters change a file at once, and a reader never sees one without its user's lines.
func TestEdit_AtOnce(t *testing.T) {
	t.Parallel()
	f := newFile(t, users)
	reading, stop := context.WithCancel(t.Context())
	var reader, writers sync.WaitGroup
	reader.Go(func() {
		for reading.Err() == nil {
			if text, err := os.ReadFile(f.Path); err != nil || !strings.HasPrefix(string(text), users) {
				t.Errorf("it is %q, %v", text, err)
				return
			}
		}
	})
	for i := range 4 {
		cluster := fmt.Sprintf("c%d", i)
		writers.Go(func() {
			for n := range 20 {
				entries := []Entry{entry("192.0.2.1", fmt.Sprintf("n%d.test", n))}
				if n == 19 {
					entries = nil
				}
				if err := f.Edit(t.Context(), func(text string) string { return Set(text, cluster, entries) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	stop()
	reader.Wait()
	f.want(t, users)
}

func TestEdit_Locked(t *testing.T) {
	t.Parallel()
	f := newFile(t, "old\n")
	unlock, err := f.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.Edit(ctx, to("new\n")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	f.want(t, "old\n")
	unlock()
	if err := f.Edit(t.Context(), to("new\n")); err != nil {
		t.Error(err)
	}
}
