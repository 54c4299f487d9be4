// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package podlog

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// found are the links below a folder, by their path from there, and where they lead.
func found(t *testing.T, root string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() != fs.ModeSymlink {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		target, err := os.Readlink(path)
		got[name] = strings.TrimPrefix(target, root+"/")
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return got
}

func of(uid types.UID, name string, attempt uint32, id, file string) *container.Container {
	return &container.Container{ID: id, Name: name, Attempt: attempt, LogPath: file, Pod: container.Pod{UID: uid, Namespace: "ns", Name: "p"}}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	l := Links{Pods: filepath.Join(root, "pods"), Containers: filepath.Join(root, "containers")}
	first, again, other := of("u", "c", 0, "id0", "/d/0"), of("u", "c", 1, "id1", "/d/1"), of("v", "c", 0, "id2", "/d/2")
	for range 2 {
		for _, c := range []*container.Container{first, again, other, of("w", "c", 0, "id3", "")} {
			if err := l.Keep(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	ofOther := map[string]string{"pods/ns_p_v/c/0.log": "/d/2", "containers/p_ns_c-id2.log": "pods/ns_p_v/c/0.log"}
	want := map[string]string{
		"pods/ns_p_u/c/0.log": "/d/0", "containers/p_ns_c-id0.log": "pods/ns_p_u/c/0.log",
		"pods/ns_p_u/c/1.log": "/d/1", "containers/p_ns_c-id1.log": "pods/ns_p_u/c/1.log",
	}
	maps.Copy(want, ofOther)
	if diff := cmp.Diff(want, found(t, root)); diff != "" {
		t.Errorf("kept: %s", diff)
	}
	for range 2 {
		if err := l.Drop(first); err != nil {
			t.Fatal(err)
		}
	}
	delete(want, "pods/ns_p_u/c/0.log")
	delete(want, "containers/p_ns_c-id0.log")
	if diff := cmp.Diff(want, found(t, root)); diff != "" {
		t.Errorf("one dropped: %s", diff)
	}
	for range 2 {
		if err := l.DropPod("u"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(ofOther, found(t, root)); diff != "" {
		t.Errorf("a pod dropped: %s", diff)
	}
	if err := l.DropPod("v"); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A container that was made anew by a name that was used before has the link, whatever was there.
func TestLinks_Replaces(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	l := Links{Pods: filepath.Join(root, "pods"), Containers: filepath.Join(root, "containers")}
	for _, file := range []string{"/d/0", "/d/1"} {
		if err := l.Keep(of("u", "c", 0, "id", file)); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"pods/ns_p_u/c/0.log": "/d/1", "containers/p_ns_c-id.log": "pods/ns_p_u/c/0.log"}
	if diff := cmp.Diff(want, found(t, root)); diff != "" {
		t.Error(diff)
	}
}
