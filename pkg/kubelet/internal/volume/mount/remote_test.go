// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/machinetest"
)

// program makes a program of the PATH.
func program(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestRemote(t *testing.T) {
	machinetest.Mounts(t)
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	program(t, "mount.minik8s", `printf '%s|' "$@" > `+dir+`/args; exec mount -t tmpfs tmpfs "$2"`)
	if err := (Linux{}).Remote(t.Context(), "minik8s", "server:/a b", target, []string{"ro", "vers=4"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = (Linux{}).Unmount(target) })
	if args, err := os.ReadFile(filepath.Join(dir, "args")); err != nil || string(args) != "server:/a b|"+target+"|-o|ro,vers=4|" {
		t.Errorf("arguments %s, %v", args, err)
	}
	if ok, err := (Linux{}).Mounted(target); !ok || err != nil {
		t.Errorf("Mounted: %v, %v", ok, err)
	}
	if err := (Linux{}).Unmount(target); err != nil {
		t.Fatal(err)
	}
	if ok, err := (Linux{}).Mounted(target); ok || err != nil {
		t.Errorf("Mounted after Unmount: %v, %v", ok, err)
	}
}

func TestRemote_Errors(t *testing.T) {
	remote := func(kind, source string) string {
		err := Linux{}.Remote(t.Context(), kind, source, "/target", []string{"ro"})
		if err == nil {
			t.Fatalf("%s from %s is mounted", kind, source)
		}
		return err.Error()
	}
	if got := remote("minik8s-absent", "s:/p"); got != "the program mount.minik8s-absent is not installed on this node" {
		t.Error(got)
	}
	program(t, "mount.minik8s", "echo 'access denied by server'; exit 32")
	if got := remote("minik8s", "-o:/p"); !strings.Contains(got, "must not begin with a dash") {
		t.Error(got)
	}
	got := remote("minik8s", "s:/p")
	for _, part := range []string{"mount failed: exit status 32\n", "Mounting arguments: s:/p /target -o ro\n", "Output: access denied by server\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %q", part, got)
		}
	}
}

// TestRemote_Hangs ends a mount that its caller does not wait for any more, with what it has started.
func TestRemote_Hangs(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	program(t, "mount.minik8s", "sleep 1000 > "+fifo+" &\nwait\n")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Linux{}.Remote(ctx, "minik8s", "s:/p", "/target", nil) }()
	f, err := os.Open(fifo) // when the child runs
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cancel()
	if err := <-done; err == nil {
		t.Error("it is mounted")
	}
	if n, err := f.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v", n, err) // the end of the file comes when nobody has it open
	}
}

// TestUnmountRemote unmounts a file system whose server does not answer, while somebody is in it.
func TestUnmountRemote(t *testing.T) {
	machinetest.Mounts(t)
	target := filepath.Join(t.TempDir(), "target")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		machinetest.Lacks(t, "needs FUSE: %v", err)
	}
	if err := unix.Mount("minik8s", target, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server)); err != nil {
		t.Fatal(err)
	}
	inside, err := unix.Open(target, unix.O_PATH|unix.O_CLOEXEC, 0) // which asks the server for nothing
	if err != nil {
		t.Error(err)
	}
	if err := (Linux{}).Unmount(target); err != nil {
		t.Error(err)
	}
	if ok, err := (Linux{}).Mounted(target); ok || err != nil {
		t.Errorf("Mounted: %v, %v", ok, err)
	}
	for _, fd := range []int{inside, server} {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
}

func TestIsRemote(t *testing.T) {
	const info = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" +
		"30 22 0:40 / /a rw shared:1 - nfs4 s:/p rw\n" +
		"31 22 0:41 / /b rw - fuse.sshfs x rw\n" +
		"32 30 0:42 / /a rw - tmpfs tmpfs rw\n"
	for dir, want := range map[string]bool{"/": false, "/a": false, "/b": true, "/c": false} {
		if got := isRemote(info, dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
}
