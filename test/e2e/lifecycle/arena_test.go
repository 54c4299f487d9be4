// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minik8s.io/minik8s/test/e2e/cluster"
)

// arena is the world of the test: a home without anything, and the program.
type arena struct {
	home, binary string
}

func newArena(t *testing.T) *arena {
	t.Helper()
	if os.Getenv("MINIK8S_E2E") != "1" {
		t.Skip("needs the built program: run it with make e2e, or make lifecycle") //nolint:forbidigo // as the end-to-end tests: asked for as a whole
	}
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Chmod(filepath.Dir(home), 0o755); err != nil { // nobody may not look into the folders of a test
		t.Fatal(err)
	}
	a := &arena{home: home, binary: filepath.Join(home, "minik8s")}
	if err := copyFile(filepath.Join(root, "bin", "minik8s"), a.binary); err != nil {
		t.Fatalf("%v: run this with: make lifecycle", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(home, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (a *arena) data() string               { return filepath.Join(a.home, "data", "minik8s") }
func (a *arena) dataDir(name string) string { return filepath.Join(a.home, "elsewhere", name) }
func (a *arena) entry(name string) string   { return filepath.Join(a.data(), "clusters", name+".json") }
func (a *arena) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, a.binary, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"HOME=" + a.home, "XDG_DATA_HOME=" + filepath.Join(a.home, "data"), "PATH=" + os.Getenv("PATH")}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

// args are those of a verb. The second cluster has a data directory in a folder that has to be made for it.
func (a *arena) args(v verb, name string) []string {
	args := append(strings.Fields(string(v)), "--name", name)
	if v == doUp {
		args = append(args, "--nodes", "0")
		if name == names[1] {
			args = append(args, "--data-dir", a.dataDir(name))
		}
	}
	return args
}

// run runs a verb to its end.
func (a *arena) run(ctx context.Context, v verb, name string) (event, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	e := event{verb: v, begin: time.Now()}
	r, err := cluster.Run(a.command(ctx, a.args(v, name)...))
	e.end, e.code, e.output = time.Now(), r.Code, r.String()
	return e, err
}

// cutOff begins a verb and kills it.
func (a *arena) cutOff(ctx context.Context, v verb, name string, after time.Duration) (event, error) {
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	cmd := a.command(ctx, a.args(v, name)...) // is killed when ctx ends
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	e := event{verb: v, begin: time.Now()}
	err := cmd.Run()
	e.end, e.output = time.Now(), out.String()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && !exit.Exited():
		e.killed = true
	case errors.As(err, &exit):
		e.code = exit.ExitCode() // it was faster
	case ctx.Err() != nil && err != nil:
		e.killed = true
	case err != nil:
		return e, err
	}
	return e, nil
}

// kill kills the process of a cluster, if there is one.
func (a *arena) kill(ctx context.Context, name string) (event, error) {
	e := event{verb: doKill, begin: time.Now(), code: 1}
	all, err := a.list(ctx)
	if err != nil {
		return e, err
	}
	pid := all[name].Pid
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(fd) }() // of no file
		if a.isServer(pid, name) {            // and no other that has got its number
			e.code = 0
			err = errors.Join(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0), awaitEnd(ctx, fd))
		}
	} else {
		err = nil // there is none, or it has ended
	}
	e.end = time.Now()
	return e, err
}

// awaitEnd waits until a process has let go of all that it had. Its descriptor is readable then.
func awaitEnd(ctx context.Context, pidfd int) error {
	return await(ctx, "the end of a killed process", func() error {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
		if n == 0 {
			err = errors.Join(err, errors.New("it is there"))
		}
		return err
	})
}

// listed is what list -o json prints.
type listed struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Pid     int    `json:"pid"`
	Server  string `json:"server"`
	Problem string `json:"problem"`
}

func (a *arena) list(ctx context.Context) (map[string]listed, error) {
	r, err := cluster.Run(a.command(ctx, "list", "-o", "json"))
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("list: %s", r)
	}
	if err != nil {
		return nil, err
	}
	var all []listed
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil {
		return nil, fmt.Errorf("reading what list printed: %w: %s", err, r)
	}
	byName := map[string]listed{}
	for _, l := range all {
		byName[l.Name] = l
		if l.Problem != "" {
			return nil, fmt.Errorf("list: %+v", l)
		}
	}
	return byName, nil
}

// observed are the states that what list prints may mean; none while a process is on its way.
func observed(l listed, there bool) []state {
	switch {
	case !there:
		return []state{absent}
	case l.State == "running":
		return []state{up}
	case strings.Contains(l.State, "start was cut off"):
		return []state{cutFirst, cutAgain}
	case strings.Contains(l.State, "purge was cut off"):
		return []state{purging}
	case strings.HasPrefix(l.State, "stopped"):
		return []state{down}
	}
	return nil
}

// servers are the processes that run a cluster or are about to.
func (a *arena) servers(name string) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	var all []int
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && a.isServer(pid, name) {
			all = append(all, pid)
		}
	}
	return all, err
}

func (a *arena) isServer(pid int, name string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && string(line) == strings.Join([]string{a.binary, "server", "--name", name, ""}, "\x00")
}

// await calls check until it succeeds.
func await(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-ticker.C:
		}
	}
}
