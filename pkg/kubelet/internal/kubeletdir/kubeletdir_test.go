// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package kubeletdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// what is at a path: where a link leads, "directory", or "" if nothing.
func what(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return ""
	case err != nil:
		t.Fatal(err)
	case info.IsDir():
		return "directory"
	}
	to, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestClaim(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		before  func(path, root, other string) error
		taken   bool
		claimed string // in the words of what; ROOT and OTHER are the roots
		left    string // after Release
	}{
		{name: "nothing", before: func(string, string, string) error { return nil }, claimed: "ROOT"},
		{name: "its own of an earlier start", before: func(path, root, _ string) error { return os.Symlink(root, path) }, claimed: "ROOT"},
		{name: "a directory", before: func(path, _, _ string) error { return os.Mkdir(path, 0o700) }, taken: true, claimed: "directory", left: "directory"},
		{name: "another cluster's", before: func(path, _, other string) error { return os.Symlink(other, path) }, taken: true, claimed: "OTHER", left: "OTHER"},
		{
			name: "that of a cluster that is gone", before: func(path, _, other string) error { return errors.Join(os.Symlink(other, path), os.Remove(other)) },
			claimed: "ROOT",
		},
		{
			name:   "somebody's that leads to the root all the same",
			before: func(path, root, _ string) error { return os.Symlink(root+"/", path) }, claimed: "ROOT/", left: "ROOT/",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, root, other := filepath.Join(dir, "standard"), filepath.Join(dir, "root"), filepath.Join(dir, "other")
			if err := errors.Join(os.Mkdir(root, 0o700), os.Mkdir(other, 0o700), tc.before(path, root, other)); err != nil {
				t.Fatal(err)
			}
			words := map[string]string{"": "", "directory": "directory", root: "ROOT", root + "/": "ROOT/", other: "OTHER"}
			for range 2 {
				err := Claim(path, root)
				if _, taken := errors.AsType[*TakenError](err); taken != tc.taken || !taken && err != nil {
					t.Fatalf("claiming: %v", err)
				}
				if got := words[what(t, path)]; got != tc.claimed {
					t.Errorf("claimed: %q, want %q", got, tc.claimed)
				}
			}
			for range 2 {
				if err := Release(path, root); err != nil {
					t.Fatal(err)
				}
				if got := words[what(t, path)]; got != tc.left {
					t.Errorf("released: %q, want %q", got, tc.left)
				}
			}
		})
	}
}

// Of many that find a link which leads nowhere, one has it.
func TestClaim_DanglingAtTheSameTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "standard")
	if err := os.Symlink(filepath.Join(dir, "gone"), path); err != nil {
		t.Fatal(err)
	}
	const clusters = 8
	claimed := make(chan string, clusters)
	var all sync.WaitGroup
	for i := range clusters {
		root := filepath.Join(dir, fmt.Sprint("root", i))
		if err := os.Mkdir(root, 0o700); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			err := Claim(path, root)
			if _, taken := errors.AsType[*TakenError](err); taken {
				return
			}
			if err != nil {
				t.Error(err)
			}
			claimed <- root
		})
	}
	all.Wait()
	close(claimed)
	var got []string
	for root := range claimed {
		got = append(got, root)
	}
	if len(got) != 1 || got[0] != what(t, path) {
		t.Errorf("claimed by %v, and leads to %s", got, what(t, path))
	}
}

func TestClaim_Fails(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	err := Claim(filepath.Join(root, "none", "standard"), root)
	if _, taken := errors.AsType[*TakenError](err); err == nil || taken {
		t.Errorf("got %v", err)
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		Standard: "/root", Standard + "/": "/root", Standard + "/pods/u": "/root/pods/u", Standard + "2": Standard + "2",
		Standard + "/../other": Standard + "/../other", "/var/lib": "/var/lib", "/root/x": "/root/x",
	} {
		if got := Place("/root", path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestAsSeen(t *testing.T) {
	t.Parallel()
	const root = "/data/kubelet"
	for _, tc := range []struct{ endpoint, path, want string }{
		{Standard + "/plugins/d/csi.sock", root + "/pods/u", Standard + "/pods/u"},
		{Standard + "/plugins/d/csi.sock", root, Standard},
		{Standard + "/plugins/d/csi.sock", root + "2/x", root + "2/x"},
		{Standard + "/plugins/d/csi.sock", root + "/../other", root + "/../other"},
		{root + "/plugins/d/csi.sock", root + "/pods/u", root + "/pods/u"},
		{"/run/d/csi.sock", root + "/pods/u", root + "/pods/u"},
	} {
		if got := AsSeen(root, tc.endpoint, tc.path); got != tc.want {
			t.Errorf("to %s %s is %s, want %s", tc.endpoint, tc.path, got, tc.want)
		}
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "kubelet")
	for range 2 {
		if err := Prepare(root); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pods", "plugins", "plugins_registry"} {
		if info, err := os.Lstat(filepath.Join(root, name)); err != nil || info.Mode() != os.ModeDir|0o750 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/r/plugins/a/s": "plugins/a/s", "/var/lib/kubelet/plugins/a/s": "plugins/a/s", "/r2/s": "", "/r": "", "/r/../s": "", "/var/lib/s": "", "s": "", "": "",
	} {
		if got, is := Below("/r", path); got != want || is != (want != "") {
			t.Errorf("%q: %q, %v", path, got, is)
		}
	}
}
