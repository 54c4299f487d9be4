// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/pkg/machinetest"
)

func TestMain(m *testing.M) {
	if os.Getenv("NAMESPACE_TEST_HOLD") != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestDo(t *testing.T) {
	machinetest.Root(t, "for a network namespace")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "NAMESPACE_TEST_HOLD=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}()
	path := "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/net"
	want, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	// Many at a time, so that all threads of the process have their turn.
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			err := Do(path, func() error {
				got, err := os.Readlink("/proc/thread-self/ns/net")
				if err != nil {
					return err
				}
				if got != want {
					t.Errorf("in %s, want %s", got, want)
				}
				if unix.Gettid() == unix.Getpid() {
					t.Error("on the first thread")
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if now, err := os.Readlink("/proc/self/ns/net"); err != nil || now != own {
		t.Errorf("the process is in %s, %v, and was in %s", now, err, own)
	}
	if now, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || now != own {
		t.Errorf("this thread is in %s, %v, and was in %s", now, err, own)
	}
	boom := errors.New("boom")
	if err := Do(path, func() error { return boom }); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if err := Do("/proc/self/absent", func() error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
