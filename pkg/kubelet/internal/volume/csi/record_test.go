// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
)

// hide puts something that cannot be read in the place of a file or a folder, until the returned function is called.
func hide(t *testing.T, path string) (restore func()) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Lstat(path)
	must(err)
	must(os.Rename(path, path+".hidden"))
	if info.IsDir() {
		must(os.WriteFile(path, nil, 0o600))
	} else {
		must(os.Mkdir(path, 0o700))
	}
	return func() {
		must(os.Remove(path))
		must(os.Rename(path+".hidden", path))
	}
}

// A record that cannot be read holds up its pod and its volume alone, is taken for none by nobody, and counts once it can be read. The
// kubelet's directory may have any name.
func TestRecords_Unread(t *testing.T) {
	t.Parallel()
	l := layout{filepath.Join(t.TempDir(), `[a*?\`)}
	if err := os.MkdirAll(filepath.Join(l.root, "pods"), 0o700); err != nil {
		t.Fatal(err)
	}
	of := func(pod types.UID, name string) record {
		return record{pod: pod, Name: name, Driver: driverName, Handle: "handle of " + name, Attachment: "x", Publishing: true}
	}
	before, err := load(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []record{of("a", "pv"), of("b", "pv"), of("a", "other")} {
		if _, err := before.begin(r, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name, path string
		folder     bool
	}{
		{"record", filepath.Join(l.pod("b", "pv"), recordFile), false},
		{"folder of a pod", l.pod("b", ""), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			restore := hide(t, tc.path)
			r, err := load(l)
			if err == nil || len(r.of("a")) != 2 || len(r.of("b")) != 0 {
				t.Fatalf("known are %v, %v; %v", r.of("a"), r.of("b"), err)
			}
			if r.unknown(key{pod: "b"}) == nil || r.unknown(key{pod: "a"}) != nil {
				t.Error("it is not the pod's record that is not known")
			}
			if _, err := r.begin(of("b", "pv"), false); err == nil {
				t.Error("what has been begun is begun anew")
			}
			if _, err := r.begin(of("c", "pv"), true); err == nil {
				t.Error("a pod has a volume for itself that another one may have")
			}
			if _, err := r.begin(of("a", "pv"), true); err != nil {
				t.Errorf("a pod does not go on with what it has: %v", err)
			}
			if yielded, err := r.yield(of("a", "pv")); !yielded && err == nil {
				t.Error("another pod's volume would be unstaged")
			}
			if yielded, err := r.yield(of("a", "other")); yielded || (err != nil) != tc.folder {
				t.Errorf("the other volume: %t, %v", yielded, err)
			}
			if err := before.set(of("a", "pv")); err != nil {
				t.Fatal(err)
			}
			restore()
			if got := r.of("b"); len(got) != 1 || !got[0].Publishing || r.unknown(key{}) != nil {
				t.Errorf("when it can be read: %v, %v", got, r.unknown(key{}))
			}
		})
	}
	restore := hide(t, filepath.Join(l.root, "pods"))
	r, err := load(l)
	if err == nil || r.unknown(key{pod: "a"}) == nil {
		t.Errorf("without any folder: %v", err)
	}
	restore()
	if len(r.of("a")) != 2 || r.unknown(key{}) != nil {
		t.Errorf("when they can be listed: %v, %v", r.of("a"), r.unknown(key{}))
	}
}

// Until all records can be read, no volume that the node's status tells of is free to be detached, and no pod has nothing to be torn down.
func TestUnread(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	node := &corev1.Node{Status: corev1.NodeStatus{VolumesInUse: []corev1.UniqueVolumeName{uniqueName(driverName, "v"), uniqueName(driverName, "o")}}}
	config := Config{RootDir: root, Client: fake.NewClientset(), Clock: clock.RealClock{}, Node: func() *corev1.Node { return node }, InUse: func() {}}
	before, err := load(layout{root})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.begin(record{pod: "a", Name: "pv", Driver: driverName, Handle: "v", Attachment: "x", Publishing: true}, false); err != nil {
		t.Fatal(err)
	}
	restore := hide(t, filepath.Join(layout{root}.pod("a", "pv"), recordFile))
	c, err := New(config)
	if err == nil {
		t.Fatal("nobody has noticed")
	}
	if got := c.InUse(); !slices.Contains(got, uniqueName(driverName, "o")) || !slices.Contains(got, uniqueName(driverName, "v")) {
		t.Errorf("in use are %v", got)
	}
	for pod, name := range map[types.UID]string{"b": "pv", "c": "other"} {
		handle := map[string]string{"pv": "v", "other": "o"}[name]
		if _, err := c.records.begin(record{pod: pod, Name: name, Driver: driverName, Handle: handle, Attachment: "x"}, false); err != nil {
			t.Errorf("another pod: %v", err)
		}
		if err := c.TearDown(t.Context(), pod); err != nil {
			t.Errorf("another pod: %v", err)
		}
	}
	if got := c.InUse(); !slices.Equal(got, []corev1.UniqueVolumeName{uniqueName(driverName, "v")}) {
		t.Errorf("when others have left, in use are %v", got)
	}
	if err := c.TearDown(t.Context(), "a"); err == nil {
		t.Error("what nobody knows of is torn down")
	}
	restore()
	if err := c.TearDown(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "driver name d.test not found") {
		t.Errorf("without its driver: %v", err)
	}
	if got := c.InUse(); !slices.Equal(got, []corev1.UniqueVolumeName{uniqueName(driverName, "v")}) {
		t.Errorf("in use are %v", got)
	}
}
