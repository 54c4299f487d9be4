// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package fake is a container.Runtime in memory, for tests of the kubelet: it records calls, fails on demand and lets a
// test end containers or run Go functions in them. Touch it when the interface grows or a test needs another lever.
package fake

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
)

// Config configures a Runtime; the zero value is useful.
type Config struct {
	// Clock stamps containers and log lines and measures grace periods. Default: the real clock.
	Clock clock.Clock
	// Program chooses what a container does when it is started. Nil, or a nil result, means it runs until it is
	// stopped and then exits 0 (137 when killed).
	Program func(c container.ContainerConfig) Program
	// Exec handles Runtime.Exec in a running container. Nil means every command exits 0 and prints nothing.
	Exec func(ctx context.Context, c *container.Container, o container.ExecOptions) (int, error)
	// PullAll lets a pull of any valid reference succeed; otherwise only published images can be pulled.
	PullAll bool
}

// Call is one recorded call of the Runtime.
type Call struct {
	// Op is the method's name, such as "StartContainer".
	Op string
	// ID is the container, sandbox or image reference it was about, "" if it had none yet.
	ID string
	// Pod and Container identify the subject when known.
	Pod       container.Pod
	Container string
	// Arg is the method's main argument: SandboxConfig, ContainerConfig, the grace period of StopContainer, ….
	Arg any
}

// Runtime implements container.Runtime. Besides the interface it has the levers of a test. Safe for concurrent use.
type Runtime struct {
	config Config
	clock  clock.Clock

	mu          sync.Mutex
	serial      int
	sandboxes   map[string]*sandbox
	containers  map[string]*process
	images      map[string]*container.Image // by id
	published   map[string]published        // by normalized reference
	foreign     map[string]bool             // ids of images that others use
	layers      map[string][]string         // by image id
	calls       []Call
	faults      map[string][]fault
	before      func(Call) error
	hangs       []*hang
	lost        map[string]int // answers to lose, by method
	silent      int            // events that reach nobody
	unavailable bool
	watchers    map[*watcher]struct{}
}

var _ container.Runtime = (*Runtime)(nil)

type fault struct {
	err  error
	once bool
}

type published struct {
	image *container.Image
	auth  *container.RegistryAuth
}

type sandbox struct {
	container.Sandbox
	config    container.SandboxConfig
	listeners map[int32]*listener
}

// New returns an empty Runtime.
func New(config Config) *Runtime {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Runtime{
		config:     config,
		clock:      config.Clock,
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*process{},
		images:     map[string]*container.Image{},
		published:  map[string]published{},
		foreign:    map[string]bool{},
		layers:     map[string][]string{},
		faults:     map[string][]fault{},
		lost:       map[string]int{},
		watchers:   map[*watcher]struct{}{},
	}
}

// Fail makes every later call of the method op return err, until err is nil.
func (r *Runtime) Fail(op string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.faults, op)
	if err != nil {
		r.faults[op] = []fault{{err: err}}
	}
}

// FailOnce makes the next call of the method op return err; several queue up.
func (r *Runtime) FailOnce(op string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[op] = append([]fault{{err: err, once: true}}, r.faults[op]...)
}

// LoseOnce lets the next call of the method op, CreateSandbox, StartSandbox or CreateContainer, do its work and then fail as if the engine had
// gone away before it could answer.
func (r *Runtime) LoseOnce(op string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[op]++
}

// answer is the error of a method that has done its work. The caller holds r.mu.
func (r *Runtime) answer(op string) error {
	if r.lost[op] == 0 {
		return nil
	}
	r.lost[op]--
	return fmt.Errorf("fake: %s: no answer: %w", op, container.ErrUnavailable)
}

// LoseEvents lets n events of the engine reach nobody.
func (r *Runtime) LoseEvents(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent += n
}

// Hang lets every later call of the method op about id, or about any if that is "", wait until its context ends or release is
// called, as an engine does that is stuck. A sandbox whose caller did not wait is made all the same when it is released.
func (r *Runtime) Hang(op, id string) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &hang{op: op, id: id, released: make(chan struct{})}
	r.hangs = append(r.hangs, h)
	return sync.OnceFunc(func() { close(h.released) })
}

type hang struct {
	op, id   string
	released chan struct{}
}

// holds says whether a call is held up.
func (h *hang) holds(c Call) bool {
	select {
	case <-h.released:
		return false
	default:
		return h.op == c.Op && (h.id == "" || h.id == c.ID)
	}
}

// Before sets a function that is called before every operation, outside any lock; its error becomes the operation's.
// It may block, to hold an operation up.
func (r *Runtime) Before(f func(Call) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = f
}

// SetUnavailable makes the engine go away (all calls fail with ErrUnavailable, event streams break) or come back.
// Containers keep running meanwhile, as they do under Docker's live restore.
func (r *Runtime) SetUnavailable(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unavailable = away
	if away {
		for w := range r.watchers {
			w.close()
		}
		clear(r.watchers)
	}
}

// Calls returns the recorded calls, all or only those of the named methods, oldest first.
func (r *Runtime) Calls(ops ...string) []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Call
	for _, c := range r.calls {
		if len(ops) == 0 {
			out = append(out, c)
			continue
		}
		for _, op := range ops {
			if c.Op == op {
				out = append(out, c)
			}
		}
	}
	return out
}

// ResetCalls forgets the recorded calls.
func (r *Runtime) ResetCalls() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = nil
}

// begin records a call and decides whether it fails.
func (r *Runtime) begin(ctx context.Context, c Call) error {
	r.mu.Lock()
	if p := r.containers[c.ID]; p != nil {
		c.Pod, c.Container = p.Pod, p.Name
	} else if s := r.sandboxes[c.ID]; s != nil && c.Container == "" {
		c.Pod = s.Pod
	}
	r.calls = append(r.calls, c)
	before, away := r.before, r.unavailable
	var hangs []*hang
	for _, h := range r.hangs {
		if h.holds(c) {
			hangs = append(hangs, h)
		}
	}
	var err error
	if q := r.faults[c.Op]; len(q) > 0 {
		err = q[0].err
		if q[0].once {
			r.faults[c.Op] = q[1:]
		}
	}
	r.mu.Unlock()
	for _, h := range hangs {
		select {
		case <-h.released:
		case <-ctx.Done():
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case away:
		return fmt.Errorf("fake: %s: %w", c.Op, container.ErrUnavailable)
	case err != nil:
		return err
	case before != nil:
		return before(c)
	}
	return nil
}

// newID returns a fresh id that looks like Docker's. The caller holds r.mu.
func (r *Runtime) newID() string {
	r.serial++
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, "fake", r.serial)))
}

// pid returns a number above any that Linux hands out, so that nothing real is hit by mistake. The caller holds r.mu.
func (r *Runtime) pid() int {
	r.serial++
	return 1<<23 + r.serial
}

// Version implements container.Runtime.
func (r *Runtime) Version(ctx context.Context) (container.Version, error) {
	if err := r.begin(ctx, Call{Op: "Version"}); err != nil {
		return container.Version{}, err
	}
	return container.Version{Name: "fake", Version: "1.0.0", APIVersion: "1.41", CgroupDriver: "cgroupfs", CgroupVersion: "2", Handlers: []container.Handler{{}}}, nil
}

// CreateSandbox implements container.Runtime.
func (r *Runtime) CreateSandbox(ctx context.Context, c container.SandboxConfig) (string, error) {
	call := Call{Op: "CreateSandbox", Pod: c.Pod, Arg: c}
	if err := r.begin(ctx, call); err != nil {
		r.late(call, func() { _, _ = r.createSandbox(c) })
		return "", err
	}
	return r.createSandbox(c)
}

// late does what a call was about after its caller has gone, as an engine that was stuck with it does.
func (r *Runtime) late(c Call, work func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.hangs {
		if h.holds(c) {
			go func() {
				<-h.released
				work()
			}()
			return
		}
	}
}

func (r *Runtime) createSandbox(c container.SandboxConfig) (string, error) {
	if c.Handler != "" && c.Handler != "runc" {
		return "", fmt.Errorf("unknown or invalid runtime name: %s", c.Handler)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.sandboxes {
		if s.Pod.UID != c.Pod.UID || s.Attempt != c.Attempt {
			continue
		}
		if s.State == container.StateRunning || s.State == container.StateCreated {
			return id, nil
		}
		delete(r.sandboxes, id)
	}
	s := &sandbox{
		config:    c,
		listeners: map[int32]*listener{},
		Sandbox: container.Sandbox{
			ID: r.newID(), Pod: c.Pod, Attempt: c.Attempt, State: container.StateCreated, CreatedAt: r.clock.Now(),
			Network: c.Network, Handler: c.Handler, Image: "pause", Labels: maps.Clone(c.Labels),
		},
	}
	r.sandboxes[s.ID] = s
	r.notify(s.ID, s.Pod.UID, container.EventCreated)
	if err := r.answer("CreateSandbox"); err != nil {
		return "", err
	}
	return s.ID, nil
}

// StartSandbox implements container.Runtime.
func (r *Runtime) StartSandbox(ctx context.Context, id string) (*container.Sandbox, error) {
	call := Call{Op: "StartSandbox", ID: id}
	if err := r.begin(ctx, call); err != nil {
		r.late(call, func() { _, _ = r.startSandbox(id) })
		return nil, err
	}
	return r.startSandbox(id)
}

func (r *Runtime) startSandbox(id string) (*container.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[id]
	if s == nil {
		return nil, fmt.Errorf("sandbox %q: %w", id, container.ErrNotFound)
	}
	if s.State != container.StateRunning {
		s.State, s.Pid = container.StateRunning, r.pid()
		r.notify(s.ID, s.Pod.UID, container.EventStarted)
	}
	if err := r.answer("StartSandbox"); err != nil {
		return nil, err
	}
	return s.copy(), nil
}

func (s *sandbox) copy() *container.Sandbox {
	out := s.Sandbox
	out.Labels = maps.Clone(s.Labels)
	return &out
}

// StopSandbox implements container.Runtime.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	if err := r.begin(ctx, Call{Op: "StopSandbox", ID: id}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopSandbox(id)
	return nil
}

// stopSandbox ends a sandbox. The caller holds r.mu.
func (r *Runtime) stopSandbox(id string) {
	s := r.sandboxes[id]
	if s == nil || s.State != container.StateRunning {
		return
	}
	s.State, s.Pid = container.StateExited, 0
	for _, l := range s.listeners {
		_ = l.Close()
	}
	r.notify(id, s.Pod.UID, container.EventDied)
}

// RemoveSandbox implements container.Runtime.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	if err := r.begin(ctx, Call{Op: "RemoveSandbox", ID: id}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[id]; s != nil {
		r.stopSandbox(id)
		delete(r.sandboxes, id)
		r.notify(id, s.Pod.UID, container.EventRemoved)
	}
	return nil
}

// KillSandbox ends a sandbox's pause process as if it had crashed; the pod's containers go on.
func (r *Runtime) KillSandbox(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopSandbox(id)
}

// List implements container.Runtime.
func (r *Runtime) List(ctx context.Context) ([]container.Summary, error) {
	if err := r.begin(ctx, Call{Op: "List"}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []container.Summary
	for _, s := range r.sandboxes {
		out = append(out, container.Summary{ID: s.ID, Pod: s.Pod, State: s.State})
	}
	for _, p := range r.containers {
		out = append(out, container.Summary{ID: p.ID, Pod: p.Pod, State: p.State})
	}
	return out, nil
}

// Inspect implements container.Runtime.
func (r *Runtime) Inspect(ctx context.Context, id string) (*container.Sandbox, *container.Container, error) {
	if err := r.begin(ctx, Call{Op: "Inspect", ID: id}); err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[id]; s != nil {
		return s.copy(), nil, nil
	}
	if p := r.containers[id]; p != nil {
		return nil, p.copy(), nil
	}
	return nil, nil, fmt.Errorf("container %q: %w", id, container.ErrNotFound)
}

// Find returns the newest container of that name in a pod, nil if there is none.
func (r *Runtime) Find(uid types.UID, name string) *container.Container {
	r.mu.Lock()
	defer r.mu.Unlock()
	var newest *process
	for _, p := range r.containers {
		if p.Pod.UID == uid && p.Name == name && (newest == nil || p.Attempt > newest.Attempt) {
			newest = p
		}
	}
	if newest == nil {
		return nil
	}
	return newest.copy()
}

// FindSandbox returns the newest sandbox of a pod, nil if there is none.
func (r *Runtime) FindSandbox(uid types.UID) *container.Sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	var newest *sandbox
	for _, s := range r.sandboxes {
		if s.Pod.UID == uid && (newest == nil || s.Attempt > newest.Attempt) {
			newest = s
		}
	}
	if newest == nil {
		return nil
	}
	return newest.copy()
}

// watcher is one subscriber of Events.
type watcher struct {
	ch     chan container.Event
	closed bool
}

func (w *watcher) close() {
	if !w.closed {
		w.closed = true
		close(w.ch)
	}
}

// Events implements container.Runtime. A subscriber that lags by more than 1024 events loses the stream.
func (r *Runtime) Events(ctx context.Context) (<-chan container.Event, error) {
	if err := r.begin(ctx, Call{Op: "Events"}); err != nil {
		return nil, err
	}
	w := &watcher{ch: make(chan container.Event, 1024)}
	r.mu.Lock()
	r.watchers[w] = struct{}{}
	r.mu.Unlock()
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers, w)
		w.close()
	})
	return w.ch, nil
}

// BreakEvents ends all event streams, as a restart of the engine does.
func (r *Runtime) BreakEvents() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.watchers {
		w.close()
	}
	clear(r.watchers)
}

// notify sends an event to all subscribers. The caller holds r.mu.
func (r *Runtime) notify(id string, uid types.UID, t container.EventType) {
	if r.silent > 0 {
		r.silent--
		return
	}
	for w := range r.watchers {
		select {
		case w.ch <- container.Event{ID: id, PodUID: uid, Type: t}:
		default:
			w.close()
			delete(r.watchers, w)
		}
	}
}

// now is the present by the Runtime's clock.
func (r *Runtime) now() time.Time { return r.clock.Now() }
