// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinkAssets: a link of an earlier version is replaced, one that is somebody else's stays.
func TestLinkAssets(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, target, refused string
	}{
		{name: "nothing is there"},
		{name: "its own", target: self},
		{name: "of an earlier version that is gone", target: "/nowhere/minik8s-1.0"},
		{name: "another's", target: "/usr/bin/true", refused: "/usr/bin/true, and not to minik8s"},
		{name: "another's that is gone", target: "../nowhere/etcd", refused: "../nowhere/etcd, and not to minik8s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "kube-apiserver")
			if tc.target != "" {
				if err := os.Symlink(tc.target, path); err != nil {
					t.Fatal(err)
				}
			}
			want, err := self, linkAssets(dir)
			if tc.refused != "" {
				want = tc.target
			}
			if (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("the error is %v, want one with %q", err, tc.refused)
			}
			if got, err := os.Readlink(path); err != nil || got != want {
				t.Errorf("it is a link to %q (%v), want %q", got, err, want)
			}
		})
	}
}
