// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pause

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"minik8s.io/minik8s/pkg/machinetest"
)

func TestProgramIsELF(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			program, err := Program(arch)
			if err != nil {
				t.Fatal(err)
			}
			f, err := elf.NewFile(bytes.NewReader(program))
			if err != nil {
				t.Fatal(err)
			}
			if f.Machine != machine || f.Type != elf.ET_EXEC || len(f.Progs) != 1 {
				t.Errorf("got machine %v, type %v, %d program headers", f.Machine, f.Type, len(f.Progs))
			}
			if p := f.Progs[0]; p.Filesz != uint64(len(program)) || f.Entry != base+codeOffset {
				t.Errorf("segment of %d bytes for a file of %d, entry %#x", p.Filesz, len(program), f.Entry)
			}
			if len(program) > 1024 {
				t.Errorf("%d bytes; it is meant to be tiny", len(program))
			}
		})
	}
	if _, err := Program("sparc"); err == nil {
		t.Error("no error for an unknown processor")
	}
}

// TestArm64Encoding compares instructions with their encodings in the ARM manual's examples, since the test machine
// seldom is one.
func TestArm64Encoding(t *testing.T) {
	text := arm64(base + codeOffset)
	want := []byte{
		0xe9, 0x03, 0x40, 0xf9, // ldr x9, [sp]
		0x3f, 0x09, 0x00, 0xf1, // cmp x9, #2
	}
	if !bytes.HasPrefix(text, want) {
		t.Errorf("starts with % x, want % x", text[:8], want)
	}
	for _, in := range [][]byte{
		{0xe1, 0x0b, 0x40, 0xf9}, // ldr x1, [sp, #16]
		{0x60, 0x0c, 0x80, 0x92}, // mov x0, #-100
		{0x80, 0x00, 0x00, 0xb4}, // cbz x0, .+16
		{0xc8, 0x10, 0x80, 0xd2}, // mov x8, #134
		{0x01, 0x08, 0xa0, 0xf2}, // movk x1, #0x40, lsl #16
		{0x01, 0x00, 0x00, 0xd4}, // svc #0
		{0xf9, 0xff, 0xff, 0x17}, // b .-28
		{0xc8, 0x0b, 0x80, 0xd2}, // mov x8, #94
	} {
		if !bytes.Contains(text, in) {
			t.Errorf("instruction % x is missing", in)
		}
	}
}

func TestProgramRuns(t *testing.T) {
	program, err := Program(runtime.GOARCH)
	if err != nil {
		machinetest.Lacks(t, "needs a processor that there is a program for: %v", err)
	}
	file := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(file, program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd := exec.Command(file)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill() }()
			deadline := time.Now().Add(10 * time.Second)
			for !asleep(t, cmd.Process.Pid) {
				if time.Now().After(deadline) {
					t.Fatal("does not fall asleep")
				}
				runtime.Gosched()
			}
			// Ignored and handled signals: SIGCHLD is bit 16, SIGTERM bit 14, SIGINT bit 1.
			if got := mask(t, cmd.Process.Pid, "SigIgn:"); got&(1<<16) == 0 {
				t.Errorf("SIGCHLD is not ignored: %#x", got)
			}
			if got, want := mask(t, cmd.Process.Pid, "SigCgt:"), uint64(1<<14|1<<1); got&want != want {
				t.Errorf("handled signals %#x, want %#x among them", got, want)
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("exits with %v, want 0", err)
			}
		})
	}
}

// With an argument the program goes into that network namespace, and keeps no capability; without one that it can enter it fails.
func TestProgramEnters(t *testing.T) {
	machinetest.Root(t, "to make a network namespace")
	program, err := Program(runtime.GOARCH)
	if err != nil {
		machinetest.Lacks(t, "needs a processor that there is a program for: %v", err)
	}
	file := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(file, program, 0o755); err != nil {
		t.Fatal(err)
	}
	other := exec.Command(file)
	other.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	netns := func(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid), "ns", "net") }

	cmd := exec.Command(file, netns(other.Process.Pid))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	for deadline := time.Now().Add(10 * time.Second); !asleep(t, cmd.Process.Pid); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("does not fall asleep")
		}
	}
	want, err := os.Readlink(netns(other.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(netns(cmd.Process.Pid)); err != nil || got != want {
		t.Errorf("it is in %s, want %s; %v", got, want, err)
	}
	for _, set := range []string{"CapEff:", "CapPrm:", "CapInh:"} {
		if got := mask(t, cmd.Process.Pid, set); got != 0 {
			t.Errorf("%s %#x", set, got)
		}
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "absent"), file} {
		fails := exec.Command(file, path)
		if err := fails.Run(); fails.ProcessState.ExitCode() != 1 {
			t.Errorf("with %s it ends with %v, want exit code 1", path, err)
		}
	}
}

func field(t *testing.T, pid int, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatalf("no %s in the status of process %d", name, pid)
	return ""
}

func asleep(t *testing.T, pid int) bool {
	t.Helper()
	return field(t, pid, "Name:") == "pause" && strings.HasPrefix(field(t, pid, "State:"), "S") && mask(t, pid, "SigCgt:") != 0
}

func mask(t *testing.T, pid int, name string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(field(t, pid, name), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTar(t *testing.T) {
	b, err := Tar("arm64")
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(bytes.NewReader(b))
	h, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	program, _ := Program("arm64")
	if h.Name != "pause" || h.Mode != 0o755 || !bytes.Equal(body, program) {
		t.Errorf("got %q mode %o with %d bytes", h.Name, h.Mode, len(body))
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("more than one file: %v", err)
	}
}
