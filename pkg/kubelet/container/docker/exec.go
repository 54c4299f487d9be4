// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// noDetachKeys is a key sequence that nobody types. Docker swallows the first key of the sequence, by default ctrl-p,
// and the sequence cannot be switched off.
const noDetachKeys = "ctrl-@,ctrl-@,ctrl-@,ctrl-@,ctrl-@,ctrl-@,ctrl-@,ctrl-@"

// Exec implements container.Runtime. A reader given as Stdin should end, or be closed, after Exec returns; until then
// one goroutine waits in it.
func (r *Runtime) Exec(ctx context.Context, id string, o container.ExecOptions) (int, error) {
	options := dockercontainer.ExecOptions{
		Cmd:          o.Command,
		Tty:          o.TTY,
		AttachStdin:  o.Stdin != nil,
		AttachStdout: o.Stdout != nil || o.Stderr == nil, // something must be attached, to see the end
		AttachStderr: o.Stderr != nil,
		DetachKeys:   noDetachKeys,
	}
	made, err := r.client.ContainerExecCreate(ctx, id, options)
	if err != nil && ctx.Err() != nil {
		return 0, notBegun(ctx, id)
	}
	if err != nil {
		return 0, engineError(err, "executing in container %q", id)
	}
	conn, err := r.client.ContainerExecAttach(ctx, made.ID, dockercontainer.ExecAttachOptions{Tty: o.TTY})
	if err != nil {
		if ctx.Err() != nil {
			return 0, r.abandon(ctx, id, made.ID)
		}
		return 0, engineError(err, "executing in container %q", id)
	}
	defer conn.Close()

	resizing, stopResizing := context.WithCancel(ctx)
	defer stopResizing()
	go follow(resizing, o.Resize, func(s container.TerminalSize) error {
		return r.client.ContainerExecResize(resizing, made.ID, dockercontainer.ResizeOptions{Width: uint(s.Width), Height: uint(s.Height)})
	})
	copied := transfer(conn, o.Stdin, o.Stdout, o.Stderr, o.TTY)
	select {
	case <-ctx.Done():
		err := r.abandon(ctx, id, made.ID)
		conn.Close()
		<-copied
		return 0, err
	case err := <-copied:
		if ctx.Err() != nil {
			return 0, r.abandon(ctx, id, made.ID)
		}
		if err != nil {
			r.killExec(ctx, id, made.ID)
			return 0, fmt.Errorf("streaming from a command in container %q: %w", id, err)
		}
	}
	// The streams end a moment before Docker has noted the exit code.
	state, err := r.awaitExec(ctx, made.ID, func(i dockercontainer.ExecInspect) bool { return !i.Running })
	if ctx.Err() != nil {
		return 0, r.abandon(ctx, id, made.ID)
	}
	if err != nil {
		return 0, engineError(err, "executing in container %q", id)
	}
	return state.ExitCode, nil
}

// awaitExec looks at an exec, ever less often, until done is true; Docker has no way of waiting for one.
func (r *Runtime) awaitExec(ctx context.Context, exec string, done func(dockercontainer.ExecInspect) bool) (dockercontainer.ExecInspect, error) {
	for delay := time.Millisecond; ; delay = min(2*delay, 250*time.Millisecond) {
		i, err := r.client.ContainerExecInspect(ctx, exec)
		if err != nil || done(i) {
			return i, err
		}
		if err := pauseFor(ctx, delay); err != nil {
			return i, err
		}
	}
}

// abandon ends an exec whose caller's context has ended, and returns what to tell it.
func (r *Runtime) abandon(ctx context.Context, id, exec string) error {
	if !r.killExec(ctx, id, exec) {
		return notBegun(ctx, id)
	}
	return ctx.Err()
}

// notBegun is the error of an exec of which the engine has not said, within the caller's time, that it began.
func notBegun(ctx context.Context, id string) error {
	return fmt.Errorf("executing in container %q: the command has not begun: %w: %w", id, container.ErrUnavailable, ctx.Err())
}

// killExec ends the process of an exec whose caller has gone, and says whether there was one. Docker's API cannot do that, so it
// is killed by its id on this machine.
func (r *Runtime) killExec(ctx context.Context, id, exec string) (begun bool) {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	i, err := r.awaitExec(ctx, exec, func(i dockercontainer.ExecInspect) bool { return i.Pid != 0 })
	if err != nil {
		if !cerrdefs.IsNotFound(err) && !errors.Is(err, context.DeadlineExceeded) { // never started, or its container is gone
			logger.Error(err, "Could not find the process of an abandoned command", "container", id)
		}
		return false
	}
	if !i.Running || !inContainer(i.Pid, i.ContainerID) {
		return true
	}
	if err := syscall.Kill(i.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		logger.Error(err, "Could not kill an abandoned command", "container", id, "pid", i.Pid)
	}
	return true
}

// inContainer guards against a process id that was given to somebody else meanwhile.
func inContainer(pid int, id string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && strings.Contains(string(b), id)
}

// Attach implements container.Runtime. As with Exec, Stdin should end after Attach returns.
func (r *Runtime) Attach(ctx context.Context, id string, o container.AttachOptions) error {
	conn, err := r.client.ContainerAttach(ctx, id, dockercontainer.AttachOptions{
		Stream: true, Stdin: o.Stdin != nil, Stdout: o.Stdout != nil, Stderr: o.Stderr != nil && !o.TTY, DetachKeys: noDetachKeys,
	})
	if err != nil {
		if _, why := r.inspect(ctx, id, kindContainer); why != nil { // an upgrade that is refused says nothing
			return why
		}
		return engineError(err, "attaching to container %q", id)
	}
	defer conn.Close()
	// Docker attaches to a container that is not running, and waits.
	found, err := r.inspect(ctx, id, kindContainer)
	if err != nil {
		return err
	}
	if !isRunning(found) {
		return fmt.Errorf("attaching to container %q: %w", id, container.ErrNotRunning)
	}
	resizing, stopResizing := context.WithCancel(ctx)
	defer stopResizing()
	go follow(resizing, o.Resize, func(s container.TerminalSize) error {
		return r.client.ContainerResize(resizing, id, dockercontainer.ResizeOptions{Width: uint(s.Width), Height: uint(s.Height)})
	})
	copied := transfer(conn, o.Stdin, o.Stdout, o.Stderr, o.TTY)
	select {
	case <-ctx.Done():
		conn.Close()
		<-copied
		return ctx.Err()
	case err := <-copied:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("streaming from container %q: %w", id, err)
		}
		return nil
	}
}

// transfer copies between a hijacked connection and the caller's streams; the channel tells when output has ended. It
// ends at the latest when the connection is closed. Docker is told of the end of stdin: it either lets the process know, or,
// where a process reads from one attach after the other, ends the output too.
func transfer(conn types.HijackedResponse, stdin io.Reader, stdout, stderr io.Writer, tty bool) <-chan error {
	if stdin != nil {
		go func() {
			_, _ = io.Copy(conn.Conn, stdin) // the reader's and the connection's end are both normal
			_ = conn.CloseWrite()
		}()
	}
	if stdout == nil {
		stdout = io.Discard
	}
	if stderr == nil {
		stderr = io.Discard
	}
	copied := make(chan error, 1)
	go func() {
		var err error
		if tty {
			_, err = io.Copy(stdout, conn.Reader)
		} else {
			_, err = stdcopy.StdCopy(stdout, stderr, conn.Reader)
		}
		copied <- err
	}()
	return copied
}

// follow applies window sizes until there are no more. One that comes before the process is there is tried again.
func follow(ctx context.Context, sizes <-chan container.TerminalSize, apply func(container.TerminalSize) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			for delay := 5 * time.Millisecond; apply(size) != nil && delay < time.Second; delay *= 2 {
				if pauseFor(ctx, delay) != nil {
					return
				}
			}
		}
	}
}
