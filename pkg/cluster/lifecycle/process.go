// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// ErrRunning says that a process runs the cluster already.
var ErrRunning = errors.New("already running")

// Run marks this process as the one that runs the cluster, until it calls release or dies. The caller holds the lock of an
// operation on it. Nothing else in this process may open the lock's file: closing it would let go of the lock.
func (l *Lock) Run() (release func(), err error) {
	f, err := os.OpenFile(l.dir.run(l.name), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("marking cluster %q as running: %w", l.name, err)
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	// For Since, before anybody can see that it runs.
	if err = os.Chtimes(f.Name(), time.Time{}, time.Now()); err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &whole)
	}
	if err == nil {
		return func() { _ = f.Close() }, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, fmt.Errorf("cluster %q: %w", l.name, ErrRunning)
	}
	return nil, fmt.Errorf("marking cluster %q as running: %w", l.name, err)
}

// Pid is the process that runs a cluster, 0 if none does. It disturbs nobody.
func (d Dir) Pid(name string) (int, error) {
	f, err := os.Open(d.run(name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &whole); err != nil {
		return 0, fmt.Errorf("asking who runs cluster %q: %w", name, err)
	}
	switch {
	case whole.Type == unix.F_UNLCK:
		return 0, nil
	case whole.Pid <= 0:
		return 0, fmt.Errorf("cluster %q is run by a process that cannot be seen from here: is it in another container?", name)
	}
	return int(whole.Pid), nil
}

// Since is when the process that runs a cluster began to, or the last one that did, by the clock on the wall as it is now.
func (d Dir) Since(name string) (time.Time, error) {
	info, err := os.Stat(d.run(name))
	if err != nil {
		return time.Time{}, fmt.Errorf("asking since when cluster %q runs: %w", name, err)
	}
	if !info.ModTime().After(time.Now()) {
		return info.ModTime(), nil
	}
	// The clock was set back. How long ago a process began the kernel knows all the same.
	pid, err := d.Pid(name)
	if err != nil || pid == 0 {
		return info.ModTime(), err
	}
	began, err := startOf(pid)
	if err != nil {
		return time.Time{}, fmt.Errorf("asking since when cluster %q runs: %w", name, err)
	}
	return began, nil
}

// startOf is when a process began, to the second and not too late.
func startOf(pid int) (time.Time, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return time.Time{}, err
	}
	stat, err := process.Stat()
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := stat.StartTime()
	return time.Unix(int64(seconds), 0), err
}

// Process is a process that runs a cluster. It stays that one when the number is given to another.
type Process struct {
	// Pid is its number.
	Pid int
	fd  int
}

// Process returns the process that runs a cluster, nil if none does. The caller closes it.
func (d Dir) Process(name string) (*Process, error) {
	for {
		pid, err := d.Pid(name)
		if err != nil || pid == 0 {
			return nil, err
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue // it has just ended
		}
		if err != nil {
			return nil, fmt.Errorf("finding process %d: %w", pid, err)
		}
		// The number may have been given to another between the two calls. If it still has the lock, it has not.
		again, err := d.Pid(name)
		if err == nil && again == pid {
			return &Process{Pid: pid, fd: fd}, nil
		}
		_ = unix.Close(fd)
		if err != nil {
			return nil, err
		}
	}
}

// Close gives the handle back; the process goes on.
func (p *Process) Close() { _ = unix.Close(p.fd) }

// Stop asks the process to end and waits until it has; after grace it is killed.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.PidfdSendSignal(p.fd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("stopping process %d: %w", p.Pid, err)
		}
		wait, cancel := context.WithTimeout(ctx, grace)
		err := p.Wait(wait)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("process %d does not die: it may hang in the kernel", p.Pid)
}

// Wait waits until the process has ended. The error is that of ctx.
func (p *Process) Wait(ctx context.Context) error {
	const slice = 50 * time.Millisecond // how soon the end of ctx is noticed
	for {
		// A descriptor of a process becomes readable when it ends.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(slice.Milliseconds()))
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("waiting for process %d: %w", p.Pid, err)
		case n > 0:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}
