// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// progressEnv names the file descriptor on which a background process tells its parent how the start goes.
const progressEnv = "MINIK8S_PROGRESS_FD"

// Event is what a starting process tells its parent.
type Event struct {
	Step  string `json:"step,omitempty"`
	Ready bool   `json:"ready,omitempty"`
	Error string `json:"error,omitempty"`
}

// LogPath is the log of a cluster's background process.
func LogPath(c Config) string { return filepath.Join(c.DataDir, "server.log") }

// Spawn starts a cluster as a background process of this program, which must understand `server --name NAME`, and waits
// until it is Ready, or without wait until it serves. If it does not get there it is gone when Spawn returns.
func Spawn(ctx context.Context, c Config, wait bool, step func(string)) error {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return explain(fmt.Errorf("making the data directory: %w", err), c.DataDir)
	}
	if err := checkFormat(c.DataDir); err != nil {
		return explain(err, c.DataDir)
	}
	if err := save(c); err != nil {
		return explain(err, c.DataDir)
	}
	log, err := os.OpenFile(LogPath(c), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return explain(fmt.Errorf("opening the log: %w", err), c.DataDir)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.Command(self, "server", "--name", c.Name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{write}
	cmd.Env = append(os.Environ(), progressEnv+"=3")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return fmt.Errorf("starting the background process: %w", err)
	}
	err = follow(ctx, read, wait, step)
	if errors.Is(err, errSilent) {
		err = fmt.Errorf("%w; the last it wrote was: %s", err, lastLine(LogPath(c)))
	}
	if err != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if stopErr := reap(cmd, 20*time.Second); stopErr != nil {
			err = errors.Join(err, stopErr)
		}
		return err
	}
	return cmd.Process.Release()
}

// errSilent says that the process ended before it could tell why.
var errSilent = errors.New("the background process ended unexpectedly")

// lastLine is the end of a log, for an error message.
func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}

// follow reads events until the process is ready (without wait: until its first step), fails or ctx ends.
func follow(ctx context.Context, read *os.File, wait bool, step func(string)) error {
	events := make(chan Event)
	go func() {
		defer close(events)
		scanner := bufio.NewScanner(read)
		for scanner.Scan() {
			var e Event
			if json.Unmarshal(scanner.Bytes(), &e) == nil {
				select {
				case events <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	last := "nothing yet"
	for {
		select {
		case e, open := <-events:
			switch {
			case !open:
				return errSilent
			case e.Error != "":
				return errors.New(e.Error)
			case e.Ready:
				return nil
			}
			last = e.Step
			step(e.Step)
			if !wait {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("not Ready in time (reached: %s): see minik8s logs: %w", last, context.Cause(ctx))
		}
	}
}

func reap(cmd *exec.Cmd, grace time.Duration) error {
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended does not matter any more
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(grace):
		if err := cmd.Process.Kill(); err != nil {
			return fmt.Errorf("killing process %d: %w", cmd.Process.Pid, err)
		}
		<-done
		return nil
	}
}

// Reporter returns the functions by which a background process tells its parent; they do nothing in the foreground.
func Reporter() (send func(Event), background bool, done func()) {
	fd, err := strconv.Atoi(os.Getenv(progressEnv))
	if err != nil {
		return func(Event) {}, false, func() {}
	}
	os.Unsetenv(progressEnv)
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "progress")
	return func(e Event) {
		if data, err := json.Marshal(e); err == nil {
			_, _ = f.Write(append(data, '\n')) // a parent that has gone away does not need it
		}
	}, true, func() { f.Close() }
}

// Stop ends the process of a cluster and waits until it is gone; after grace it is killed. It reports whether one was
// running.
func Stop(ctx context.Context, name string, grace time.Duration) (bool, error) {
	pid := Pid(name)
	if pid == 0 {
		return false, nil
	}
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("finding process %d: %w", pid, err)
	}
	defer unix.Close(process)
	if err := signalProcess(process, unix.SIGTERM); err != nil {
		return true, explain(fmt.Errorf("stopping process %d: %w", pid, err), "")
	}
	gone, err := waitProcess(ctx, process, grace)
	if gone || err != nil {
		return true, err
	}
	if err := signalProcess(process, unix.SIGKILL); err != nil {
		return true, fmt.Errorf("killing process %d: %w", pid, err)
	}
	if gone, err = waitProcess(ctx, process, grace); err == nil && !gone {
		err = fmt.Errorf("process %d does not die: it may hang in the kernel", pid)
	}
	return true, err
}

func signalProcess(pidfd int, s unix.Signal) error {
	if err := unix.PidfdSendSignal(pidfd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// waitProcess waits at most timeout for a process to end. A descriptor of a process becomes readable when it does.
func waitProcess(ctx context.Context, pidfd int, timeout time.Duration) (bool, error) {
	const slice = 200 * time.Millisecond // how soon the end of ctx is noticed
	for deadline := time.Now().Add(timeout); ; {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(slice.Milliseconds()))
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("waiting for the process: %w", err)
		case n > 0:
			return true, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case time.Now().After(deadline):
			return false, nil
		}
	}
}

// remove deletes everything that a stopped cluster kept on disk. A directory without the mark of a data directory is
// somebody else's and stays.
func remove(c Config) error {
	if _, err := os.Stat(formatPath(c.DataDir)); err == nil {
		if err := os.RemoveAll(c.DataDir); err != nil {
			return fmt.Errorf("removing %s: %w", c.DataDir, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Forget(c.Name)
}
