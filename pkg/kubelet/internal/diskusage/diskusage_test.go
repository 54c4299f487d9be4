// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package diskusage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const block = 4096

func write(t *testing.T, dir, name string, size int) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Repeat("x", size)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func of(t *testing.T, dir string) Usage {
	t.Helper()
	u, err := Of(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestOf(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "large", 100*block)
	for _, tc := range []struct {
		name          string
		change        func(t *testing.T, dir string)
		bytes, inodes int64 // what it adds; of directories it does not count how much
	}{
		{"a file", func(t *testing.T, dir string) { t.Helper(); write(t, dir, "f", 3*block) }, 3 * block, 1},
		{"a hole", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Truncate(write(t, dir, "f", block), 1<<30); err != nil {
				t.Fatal(err)
			}
		}, block, 1},
		{"hard links", func(t *testing.T, dir string) {
			t.Helper()
			file := write(t, dir, "f", 2*block)
			for i := range 3 {
				if err := os.Link(file, fmt.Sprintf("%s%d", file, i)); err != nil {
					t.Fatal(err)
				}
			}
		}, 2 * block, 1},
		{"links", func(t *testing.T, dir string) {
			t.Helper()
			for name, to := range map[string]string{"file": filepath.Join(outside, "large"), "dir": outside, "itself": "."} {
				if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}, 0, 3},
		{"a pipe", func(t *testing.T, dir string) {
			t.Helper()
			if err := unix.Mkfifo(filepath.Join(dir, "p"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			before := of(t, dir)
			tc.change(t, dir)
			after := of(t, dir)
			if after.Inodes-before.Inodes != tc.inodes {
				t.Errorf("%d inodes, want %d", after.Inodes-before.Inodes, tc.inodes)
			}
			if got := after.Bytes - before.Bytes; got < tc.bytes || got > tc.bytes+4*block {
				t.Errorf("%d bytes, want about %d", got, tc.bytes)
			}
		})
	}
}

func TestOf_Tree(t *testing.T) {
	dir := t.TempDir()
	var want int64 = 1
	long := strings.Repeat("d", 20)
	deep, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer deep.Close()
	for range 300 { // deeper than a path may be long
		if err := deep.Mkdir(long, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := deep.OpenRoot(long)
		if err != nil {
			t.Fatal(err)
		}
		_ = deep.Close()
		deep = next
		want++
	}
	for i := range 2*batch + 1 {
		write(t, dir, fmt.Sprintf("many/%d", i), 0)
	}
	want += 1 + 2*batch + 1
	if u := of(t, dir); u.Inodes != want {
		t.Errorf("%d inodes, want %d", u.Inodes, want)
	}
}

func TestOf_Missing(t *testing.T) {
	if u := of(t, filepath.Join(t.TempDir(), "none")); u != (Usage{}) {
		t.Errorf("%+v", u)
	}
}

// TestOf_Ends: when time is up it tells what it has counted.
func TestOf_Ends(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "f", block)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u, err := Of(ctx, dir)
	if !errors.Is(err, context.Canceled) || u.Inodes != 1 {
		t.Errorf("%+v, %v", u, err)
	}
}
