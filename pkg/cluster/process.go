// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
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
	"time"

	"minik8s.io/minik8s/pkg/cluster/lifecycle"
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

// StartError is about a start that did not get to its end.
type StartError struct {
	Err error
	// Log is the end of what the process wrote. The file may be gone with the rest of the cluster.
	Log string
}

// Error implements error.
func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns what happened.
func (e *StartError) Unwrap() error { return e.Err }

// spawn starts the process of a cluster and hands it the lock. It waits until the cluster is Ready, or without opts.Wait
// until the process has begun. If it does not get there it is gone when spawn returns.
func (o *operation) spawn(ctx context.Context, c Config, opts UpOptions) error {
	log, err := os.OpenFile(LogPath(c), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return explain(fmt.Errorf("opening the log: %w", err), c.DataDir)
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
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
	lock, handed := o.lock.Hand(4)
	cmd.ExtraFiles = []*os.File{write, lock}
	cmd.Env = append(os.Environ(), progressEnv+"=3", handed)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		return fmt.Errorf("starting the background process: %w", err)
	}
	err = follow(ctx, read, opts.Wait, opts.Progress)
	if err == nil {
		return cmd.Process.Release()
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if stopErr := reap(cmd, grace); stopErr != nil {
		err = fmt.Errorf("%w; %w", err, stopErr)
	}
	if start, ok := errors.AsType[*StartError](err); ok {
		start.Log = tail(LogPath(c), from, 10)
	}
	return err
}

// errSilent says that the process ended before it could tell why.
var errSilent = errors.New("the background process ended unexpectedly")

// tail returns the last lines of a log, at most n of those that begin after an offset. A log that has become shorter is a
// new one.
func tail(path string, from int64, n int) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err.Error()
	}
	if from > end {
		from = 0
	}
	const most = 64 << 10
	data := make([]byte, min(end-from, most))
	if _, err := f.ReadAt(data, end-int64(len(data))); err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
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
			case !open && ctx.Err() == nil:
				return &StartError{Err: errSilent}
			case !open:
				return unready(ctx, last)
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
			return unready(ctx, last)
		}
	}
}

func unready(ctx context.Context, reached string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("given up (reached: %s): %w", reached, context.Cause(ctx))
	}
	return &StartError{Err: fmt.Errorf("not Ready in time (reached: %s): %w", reached, context.Cause(ctx))}
}

func reap(cmd *exec.Cmd, grace time.Duration) error {
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended does not matter any more
		close(done)
	}()
	if err := awaitEnd(done, cmd.Process.Kill, grace); err != nil {
		return fmt.Errorf("process %d: %w", cmd.Process.Pid, err)
	}
	return nil
}

// awaitEnd waits for the end of a process, which is killed after grace and given up after another.
func awaitEnd(done <-chan struct{}, kill func() error, grace time.Duration) error {
	for _, act := range []func() error{kill, func() error { return errors.New("it does not die: it may hang in the kernel") }} {
		select {
		case <-done:
			return nil
		case <-time.After(grace):
			if err := act(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Reporter returns the functions by which a background process tells its parent; they do nothing in the foreground.
func Reporter() (send func(Event), background bool, done func()) {
	fd, err := strconv.Atoi(os.Getenv(progressEnv))
	if err != nil {
		return func(Event) {}, false, func() {}
	}
	_ = os.Unsetenv(progressEnv) // fails for a name that none can have
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "progress")
	return func(e Event) {
		if data, err := json.Marshal(e); err == nil {
			_, _ = f.Write(append(data, '\n')) // a parent that has gone away does not need it
		}
	}, true, func() { _ = f.Close() }
}

// Start is a cluster that this process is about to run: no other may touch it until Close.
type Start struct {
	// Config is what it runs with.
	Config Config

	operation *operation
	before    *entry // what to go back to; nil if that is up to the parent
	release   func()
	served    bool
}

// Begin makes this process the one that runs a cluster. What the parent has prepared it takes over; in the foreground it
// prepares it itself, after waiting for other operations.
func Begin(ctx context.Context, name string, change Change, waiting func(holder string)) (*Start, error) {
	if !namePattern.MatchString(name) {
		return nil, badName(name)
	}
	dir := entries()
	l, err := dir.Inherited(name)
	if err != nil {
		return nil, err
	}
	if l != nil {
		defer l.Close()
		e, err := read(dir, name)
		if err == nil && e.State != lifecycle.Beginning && e.State != lifecycle.Starting {
			err = fmt.Errorf("cluster %q is %s, and not about to start", name, e.State)
		}
		if err != nil {
			return nil, err
		}
		return newOperation(dir, name, l).run(e)
	}
	return begun(ctx, name, false, change, waiting)
}

// begun makes this process the one that runs a cluster or a node, in the foreground.
func begun(ctx context.Context, name string, agent bool, change Change, waiting func(holder string)) (*Start, error) {
	what := "server"
	if agent {
		what = "agent"
	}
	o, err := begin(ctx, name, what, waiting)
	if err != nil {
		return nil, err
	}
	o.agent = agent
	s, err := o.beginHere(ctx, change)
	return s, errors.Join(err, o.lock.Release())
}

// beginHere prepares a start in the foreground.
func (o *operation) beginHere(ctx context.Context, change Change) (*Start, error) {
	for {
		e, process, err := o.look()
		if err != nil {
			return nil, err
		}
		if process != nil {
			process.Close()
			return nil, &Problem{Cause: fmt.Sprintf("cluster %q is already running", o.name), Remedy: fmt.Sprintf("stop it with: minik8s down --name %s", o.name)}
		}
		step := lifecycle.Next(lifecycle.Up, e.State, false)
		if step != lifecycle.Start {
			if err := o.repair(ctx, step, e); err != nil {
				return nil, err
			}
			continue
		}
		begun, err := o.prepare(ctx, e, change)
		if err != nil {
			return nil, err
		}
		s, err := o.run(begun)
		if err != nil {
			return nil, o.fail(ctx, err, e)
		}
		s.before = &e
		return s, nil
	}
}

func (o *operation) run(e entry) (*Start, error) {
	release, err := o.lock.Run()
	if err != nil {
		return nil, err
	}
	return &Start{Config: e.Config, operation: o, release: release}, nil
}

// moveOut clears what an earlier node has left where the new one, which was only asked for until now, will not take it over.
func (s *Start) moveOut(ctx context.Context) error {
	e, err := read(s.operation.dir, s.Config.Name)
	if err != nil || e.Before == nil || e.Before.State != lifecycle.Running || samePlace(e.Before.Config, s.Config) {
		return err
	}
	return s.operation.moveOut(ctx, e)
}

// serves notes that from now on somebody may have stored something: the start has succeeded as far as a crash is concerned.
func (s *Start) serves() error {
	e, err := read(s.operation.dir, s.Config.Name)
	if err != nil {
		return err
	}
	e.State, e.Before, e.Config = lifecycle.Running, nil, s.Config
	if err := write(s.operation.dir, e); err != nil {
		return explain(err, s.Config.DataDir)
	}
	s.served = true
	return nil
}

// counts notes how many nodes there are: a start without another number keeps them.
func (s *Start) counts(nodes int) error {
	e, err := read(s.operation.dir, s.Config.Name)
	if err != nil || e.Config.NodeCount() == nodes {
		return err
	}
	e.Config.Nodes = &nodes
	return explain(write(s.operation.dir, e), s.Config.DataDir)
}

// Close lets go of the cluster. A start in the foreground that has failed is undone; of one in the background the parent
// does that.
func (s *Start) Close() error {
	var err error
	if s.before != nil && !s.served {
		var now entry
		if now, err = read(s.operation.dir, s.Config.Name); err == nil {
			err = s.operation.undo(context.Background(), now, s.before)
		}
	}
	s.release()
	if err != nil || s.before == nil || s.served {
		return err
	}
	// What is left are the locks. Who has them now does this too.
	none, cancel := context.WithCancel(context.Background())
	cancel()
	if o, err := begin(none, s.Config.Name, "server", func(string) {}); err == nil {
		return o.lock.Release()
	}
	return nil
}
