// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Program is what a container does. It returns the exit code; ctx ends when the container is killed, after which the
// result is ignored and 137 reported.
type Program func(ctx context.Context, p Process) int

// Process is what a Program sees of its container.
type Process struct {
	Config         container.ContainerConfig
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Signals receives the names of signals sent to the container, such as "SIGTERM".
	Signals <-chan string
	// Listen opens a TCP port of the pod, which PortForward reaches.
	Listen func(port int32) (net.Listener, error)
}

// process is a container with its running program.
type process struct {
	container.Container
	config  container.ContainerConfig
	kill    context.CancelFunc
	done    chan struct{} // closed when exited
	signals chan string
	stdin   *pipe
	log     *logBuffer
	disk    container.DiskUsage
}

func (p *process) copy() *container.Container {
	out := p.Container
	out.Labels = maps.Clone(p.Labels)
	return &out
}

func (r *Runtime) process(id string) (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.containers[id]
	if p == nil {
		return nil, fmt.Errorf("container %q: %w", id, container.ErrNotFound)
	}
	return p, nil
}

// CreateContainer implements container.Runtime.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID string, c container.ContainerConfig) (string, error) {
	if err := r.begin(ctx, Call{Op: "CreateContainer", ID: sandboxID, Pod: c.Pod, Container: c.Name, Arg: c}); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[sandboxID]
	if s == nil {
		return "", fmt.Errorf("sandbox %q: %w", sandboxID, container.ErrNotFound)
	}
	img := r.lookup(c.Image)
	if img == nil {
		return "", fmt.Errorf("image %q: %w", c.Image, container.ErrNotFound)
	}
	for id, p := range r.containers {
		if p.Pod.UID != c.Pod.UID || p.Name != c.Name || p.Attempt != c.Attempt {
			continue
		}
		if p.SandboxID == sandboxID && p.Hash == c.Hash && (p.State == container.StateCreated || p.State == container.StateRunning) {
			return id, nil
		}
		r.finish(p, 137, false, "")
		delete(r.containers, id)
	}
	who, err := userOf(c)
	if err != nil {
		return "", err
	}
	imageID := "docker://" + img.ID
	if len(img.RepoDigests) > 0 {
		imageID = "docker-pullable://" + img.RepoDigests[0]
	}
	p := &process{
		config: c,
		kill:   func() {},
		done:   make(chan struct{}),
		log:    newLogBuffer(),
		stdin:  newPipe(),
		Container: container.Container{
			ID: r.newID(), SandboxID: sandboxID, Pod: c.Pod, Name: c.Name, Type: c.Type, Attempt: c.Attempt, Hash: c.Hash,
			State: container.StateCreated, CreatedAt: r.now(), ImageID: imageID, ImageRef: c.ImageRef, User: who,
			TerminationMessageFile: c.TerminationMount, Resources: c.Resources, Labels: maps.Clone(c.Labels),
		},
	}
	r.containers[p.ID] = p
	r.notify(p.ID, p.Pod.UID, container.EventCreated)
	if err := r.answer("CreateContainer"); err != nil {
		return "", err
	}
	return p.ID, nil
}

// userOf is who a container is made for. The fake's images know no names.
func userOf(c container.ContainerConfig) (*container.User, error) {
	var ids [2]int64
	for i, text := range strings.SplitN(c.User, ":", 2) {
		if text == "" {
			continue
		}
		var err error
		if ids[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("unable to find user %s: no matching entries in passwd file", text)
		}
	}
	groups := append([]int64{ids[1]}, c.Groups...)
	slices.Sort(groups)
	return &container.User{UID: ids[0], GID: ids[1], Groups: slices.Compact(groups)}, nil
}

// DiskUsage implements container.Runtime: what Written was told.
func (r *Runtime) DiskUsage(ctx context.Context, id string) (container.DiskUsage, error) {
	if err := r.begin(ctx, Call{Op: "DiskUsage", ID: id}); err != nil {
		return container.DiskUsage{}, err
	}
	p, err := r.process(id)
	if err != nil {
		return container.DiskUsage{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.disk, nil
}

// Written makes u what the container takes of the disk. Containers that are not known are ignored.
func (r *Runtime) Written(id string, u container.DiskUsage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.containers[id]; p != nil {
		p.disk = u
	}
}

// StartContainer implements container.Runtime. A fault injected here leaves the container exited with code 128, as an
// engine does.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	if err := r.begin(ctx, Call{Op: "StartContainer", ID: id}); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if p := r.containers[id]; p != nil && p.State == container.StateCreated && !r.unavailable && ctx.Err() == nil {
			r.finish(p, 128, false, err.Error())
		}
		return err
	}
	r.mu.Lock()
	p := r.containers[id]
	if p == nil {
		r.mu.Unlock()
		return fmt.Errorf("container %q: %w", id, container.ErrNotFound)
	}
	if p.State == container.StateRunning {
		r.mu.Unlock()
		return nil
	}
	s := r.sandboxes[p.SandboxID]
	if s == nil || s.State != container.StateRunning {
		r.mu.Unlock()
		return fmt.Errorf("sandbox %q: %w", p.SandboxID, container.ErrNotRunning)
	}
	var program Program
	config := p.config
	choose := r.config.Program
	r.mu.Unlock()
	if choose != nil {
		program = choose(config) // outside the lock: it may call levers
	}
	if program == nil {
		program = untilStopped
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if p.State == container.StateRunning {
		return nil
	}
	run, kill := context.WithCancel(context.Background())
	p.kill, p.signals = kill, make(chan string, 16)
	p.State, p.StartedAt, p.Pid = container.StateRunning, r.now(), r.pid()
	if !p.config.Stdin {
		_ = p.stdin.Close()
	}
	r.notify(id, p.Pod.UID, container.EventStarted)
	view := Process{
		Config: config, Stdin: p.stdin, Signals: p.signals,
		Stdout: p.log.writer(r, "stdout"), Stderr: p.log.writer(r, "stderr"),
		Listen: func(port int32) (net.Listener, error) { return r.listen(s, port) },
	}
	go func() {
		code := program(run, view)
		if run.Err() != nil {
			code = 137
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.finish(p, code, false, "")
	}()
	return nil
}

// untilStopped is the default Program.
func untilStopped(ctx context.Context, p Process) int {
	select {
	case <-ctx.Done():
		return 137
	case <-p.Signals:
		return 0
	}
}

// finish marks a container as exited; a second call changes nothing. The caller holds r.mu.
func (r *Runtime) finish(p *process, code int, oom bool, message string) {
	if p.State == container.StateExited {
		return
	}
	p.State, p.ExitCode, p.OOMKilled, p.Message, p.FinishedAt, p.Pid = container.StateExited, code, oom && code != 0, message, r.now(), 0
	p.kill()
	_ = p.stdin.Close()
	p.log.end()
	close(p.done)
	r.notify(p.ID, p.Pod.UID, container.EventDied)
}

// Exit ends a running container with an exit code, as if its program had returned.
func (r *Runtime) Exit(id string, code int) { r.exit(id, code, false) }

// Close ends all programs.
func (r *Runtime) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.containers {
		if p.State == container.StateRunning {
			r.finish(p, 137, false, "")
		}
	}
}

// OOMKill ends a running container as the kernel's out-of-memory killer does.
func (r *Runtime) OOMKill(id string) { r.exit(id, 137, true) }

func (r *Runtime) exit(id string, code int, oom bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.containers[id]; p != nil && p.State == container.StateRunning {
		r.finish(p, code, oom, "")
	}
}

// WriteLog appends text to a container's log; stream is "stdout" or "stderr".
func (r *Runtime) WriteLog(id, stream, text string) {
	if p, err := r.process(id); err == nil {
		_, _ = io.WriteString(p.log.writer(r, stream), text)
	}
}

// StopContainer implements container.Runtime.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration, signal string) error {
	if err := r.begin(ctx, Call{Op: "StopContainer", ID: id, Arg: grace}); err != nil {
		return err
	}
	r.mu.Lock()
	p := r.containers[id]
	if p == nil || p.State != container.StateRunning {
		r.mu.Unlock()
		return nil
	}
	if signal == "" {
		signal = p.config.StopSignal
	}
	if signal == "" {
		signal = "SIGTERM"
	}
	if grace > 0 {
		select {
		case p.signals <- signal:
		default: // a program that never reads its signals
		}
	}
	r.mu.Unlock()
	if grace > 0 {
		timer := r.clock.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finish(p, 137, false, "")
	return nil
}

// RemoveContainer implements container.Runtime.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	if err := r.begin(ctx, Call{Op: "RemoveContainer", ID: id}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.containers[id]; p != nil {
		r.finish(p, 137, false, "")
		delete(r.containers, id)
		r.notify(id, p.Pod.UID, container.EventRemoved)
	}
	return nil
}

// UpdateContainer implements container.Runtime.
func (r *Runtime) UpdateContainer(ctx context.Context, id string, res container.Resources) error {
	if err := r.begin(ctx, Call{Op: "UpdateContainer", ID: id, Arg: res}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.containers[id]
	if p == nil {
		return fmt.Errorf("container %q: %w", id, container.ErrNotFound)
	}
	if p.State != container.StateRunning {
		return fmt.Errorf("container %q: %w", id, container.ErrNotRunning)
	}
	res.CPUs, res.NUMANodes = cmp.Or(res.CPUs, p.Resources.CPUs), cmp.Or(res.NUMANodes, p.Resources.NUMANodes)
	p.Resources = res
	r.notify(id, p.Pod.UID, container.EventUpdated)
	return nil
}

// pipe is an in-memory stdin that several attachers may write to in turn.
type pipe struct {
	mu     sync.Mutex
	cond   *sync.Cond
	data   []byte
	closed bool
}

func newPipe() *pipe {
	p := &pipe{}
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, io.ErrClosedPipe
	}
	p.data = append(p.data, b...)
	p.cond.Broadcast()
	return len(b), nil
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.data) == 0 && !p.closed {
		p.cond.Wait()
	}
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	return n, nil
}

func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.cond.Broadcast()
	return nil
}
