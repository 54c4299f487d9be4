// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"os"
	"path/filepath"
	"testing"

	"minik8s.io/minik8s/pkg/kubelet/container/containertest"
)

func testDiskUsage(t *testing.T, r *Runtime, s containertest.Subject) {
	t.Helper()
	p := containertest.NewPod(t, s)
	small := p.Exited(p.Start(p.Config("exit", "0")))
	before, err := r.DiskUsage(t.Context(), small.ID)
	if err != nil {
		t.Fatal(err)
	}
	c := p.Config("write", "/file", "0123456789")
	c.Name = "writer"
	after, err := r.DiskUsage(t.Context(), p.Exited(p.Start(c)).ID)
	if grown := after.Rootfs - before.Rootfs; err != nil || grown < 10 || grown > 4096 { // containerd's store counts blocks
		t.Errorf("after 10 bytes: %+v, %v; before: %+v", after, err, before)
	}
	c.Name, c.Args = "logger", []string{"long", "5000"}
	logged, err := r.DiskUsage(t.Context(), p.Exited(p.Start(c)).ID)
	if err != nil || logged.Log < 5000 || before.Log >= 5000 {
		t.Errorf("after a line of 5000 letters: %+v, %v; before: %+v", logged, err, before)
	}
	if u, err := r.DiskUsage(t.Context(), p.Sandbox.ID); err == nil {
		t.Errorf("of a sandbox: %+v", u)
	}
}

func TestLogSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	want := int64(0)
	for i, name := range []string{"", ".1", ".2.gz"} {
		if err := os.WriteFile(file+name, make([]byte, 1<<i), 0o600); err != nil {
			t.Fatal(err)
		}
		if want += 1 << i; logSize(file) != want {
			t.Errorf("%d bytes, want %d", logSize(file), want)
		}
	}
	if n := logSize(""); n != 0 {
		t.Errorf("of no file: %d", n)
	}
}
