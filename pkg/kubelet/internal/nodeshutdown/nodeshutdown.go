// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeshutdown ends the pods of a node before the machine goes down (KEP-2000, KEP-2712): it holds a shutdown up for as long
// as they may take. Touch it when their order changes, or what is asked of the program that shuts the machine down.
package nodeshutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Reason and Message are those of the end of a pod.
const (
	Reason  = "Terminated"
	Message = "Pod was terminated in response to imminent node shutdown."
)

const (
	// firstRetry and lastRetry are how long it takes until a logind that could not be reached is tried again.
	firstRetry, lastRetry = time.Second, time.Minute
	// extended is how long logind may take to wait longer than it did.
	extended = 5 * time.Second
	// poll is how often pods that are to end are looked at.
	poll = 100 * time.Millisecond
)

// Logind is the program that shuts the machine down. Calls end with ctx.
type Logind interface {
	// Delay is how long a shutdown can be held up.
	Delay(ctx context.Context) (time.Duration, error)
	// Extend asks that Delay be d; that takes a moment.
	Extend(ctx context.Context, d time.Duration) error
	// Inhibit holds up the next shutdown until lock is closed.
	Inhibit(ctx context.Context) (lock io.Closer, err error)
	// Preparing says whether a shutdown has begun that is held up.
	Preparing(ctx context.Context) (bool, error)
	// Watch tells that Preparing may have changed, until the connection breaks.
	Watch(ctx context.Context) (<-chan struct{}, error)
	Close() error
}

// Pods are those of the node.
type Pods interface {
	// Active are those that have not ended.
	Active() []*corev1.Pod
	// End has a pod end within grace; it does not wait for that.
	End(ctx context.Context, pod *corev1.Pod, grace time.Duration)
	// Stopped says whether nothing of a pod is left, its volumes neither.
	Stopped(uid types.UID) bool
}

// Config configures a Manager. All fields are required.
type Config struct {
	// Periods are as the function of that name returns them, at least one.
	Periods []Period
	Connect func(context.Context) (Logind, error)
	Pods    Pods
	// Changed is called when Status does.
	Changed func()
	// Report is told when the end of the pods begins, and again when it is over, until when ended is zero. Its failure holds nothing
	// up.
	Report   func(began, ended time.Time)
	Recorder record.EventRecorder
	NodeRef  *corev1.ObjectReference
	Clock    clock.WithTicker
}

// Manager waits for a shutdown. Safe for concurrent use.
type Manager struct {
	cfg Config

	mu   sync.Mutex // guards down
	down bool
}

// New returns a Manager.
func New(cfg Config) *Manager { return &Manager{cfg: cfg} }

// Status is that the node is shutting down, nil if it is not.
func (m *Manager) Status() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return errors.New("node is shutting down")
	}
	return nil
}

// Start holds shutdowns up until ctx ends. While there is no logind the node runs without, and it is looked for.
func (m *Manager) Start(ctx context.Context) {
	logger := klog.FromContext(ctx)
	wait := firstRetry
	for failed := false; ; {
		watched, err := m.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if watched {
			failed, wait = false, firstRetry
		}
		if !failed {
			logger.Error(err, "A shutdown of this machine does not wait for pods until logind can be reached")
			failed = true
		}
		t := m.cfg.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C():
		}
		wait = min(2*wait, lastRetry)
	}
}

// watch holds shutdowns up until ctx ends or logind is lost. watched: it has begun to.
func (m *Manager) watch(ctx context.Context) (watched bool, err error) {
	bus, err := m.cfg.Connect(ctx)
	if err != nil {
		return false, err
	}
	defer bus.Close()
	if err := m.extend(ctx, bus); err != nil {
		klog.FromContext(ctx).Error(err, "A shutdown of this machine may not wait for pods as long as it should")
	}
	changes, err := bus.Watch(ctx)
	if err != nil {
		return false, err
	}
	h := &holding{m: m, bus: bus}
	defer h.leave()
	// Who has come too late to hold it up ends the pods all the same.
	holdErr := h.hold(ctx)
	for {
		preparing, err := bus.Preparing(ctx)
		if err != nil {
			return watched, err
		}
		if !preparing && holdErr != nil {
			return watched, holdErr
		}
		if !watched {
			klog.FromContext(ctx).Info("A shutdown of this machine waits for pods", "period", whole(m.cfg.Periods))
			watched = true
		}
		if holdErr, err = h.turn(ctx, preparing); err != nil || holdErr != nil {
			return watched, errors.Join(holdErr, err)
		}
		select {
		case <-ctx.Done():
			return watched, nil
		case _, ok := <-changes:
			if !ok {
				return watched, errors.New("the connection to logind has ended")
			}
		}
	}
}

// extend makes logind wait as long as the pods may take.
func (m *Manager) extend(ctx context.Context, bus Logind) error {
	want := whole(m.cfg.Periods)
	have, err := bus.Delay(ctx)
	if err != nil || have >= want {
		return err
	}
	if err := bus.Extend(ctx, want); err != nil {
		return err
	}
	deadline := m.cfg.Clock.NewTimer(extended)
	defer deadline.Stop()
	tick := m.cfg.Clock.NewTicker(poll)
	defer tick.Stop()
	for {
		if have, err = bus.Delay(ctx); err != nil || have >= want {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C():
			return fmt.Errorf("logind waits for %v at most, want %v (InhibitDelayMaxSec)", have, want)
		case <-tick.C():
		}
	}
}

// holding is a lock on shutdowns and what goes on while one waits for it. It belongs to one goroutine.
type holding struct {
	m    *Manager
	bus  Logind
	lock io.Closer // nil: none
	// ending is closed when all pods have ended that were to, and cancel has no more of them ended; nil if none were to.
	ending chan struct{}
	cancel context.CancelFunc
}

func (h *holding) hold(ctx context.Context) error {
	if h.lock != nil {
		return nil
	}
	lock, err := h.bus.Inhibit(ctx)
	if err == nil {
		h.lock = lock
	}
	return err
}

// release lets the shutdown go on.
func (h *holding) release() {
	if h.lock != nil {
		_ = h.lock.Close() // what it stands for is gone in any case
		h.lock = nil
	}
}

// leave lets the shutdown go on once the pods have ended: a connection that is lost while they do is none that is cancelled.
func (h *holding) leave() {
	if h.ending != nil {
		<-h.ending
		h.cancel()
	}
	h.release()
}

// turn begins to end the pods, or ceases to. Its errors are why no later shutdown is held up, and that of ctx.
func (h *holding) turn(ctx context.Context, preparing bool) (holdErr, err error) {
	switch {
	case preparing && h.ending == nil:
		h.m.set(ctx, true)
		var inner context.Context
		inner, h.cancel = context.WithCancel(ctx)
		done, lock := make(chan struct{}), h.lock
		h.ending, h.lock = done, nil
		go func() {
			defer close(done)
			began := h.m.cfg.Clock.Now()
			h.m.cfg.Report(began, time.Time{})
			h.m.end(inner)
			h.m.cfg.Report(began, h.m.cfg.Clock.Now())
			if lock != nil {
				_ = lock.Close()
			}
		}()
	case !preparing:
		if h.ending != nil {
			h.cancel()
			<-h.ending
			h.ending = nil
		}
		if holdErr = h.hold(ctx); holdErr == nil {
			h.m.set(ctx, false)
		}
	}
	return holdErr, ctx.Err()
}

// set tells whether the node is going down.
func (m *Manager) set(ctx context.Context, down bool) {
	m.mu.Lock()
	was := m.down
	m.down = down
	m.mu.Unlock()
	if was == down {
		return
	}
	message := "Shutdown manager detected shutdown event"
	if !down {
		message = "Shutdown manager detected shutdown cancellation"
	}
	klog.FromContext(ctx).Info(message)
	m.cfg.Recorder.Event(m.cfg.NodeRef, corev1.EventTypeNormal, "Shutdown", message)
	m.cfg.Changed()
}

// end ends the pods, those of the lowest priority first. It waits for those of a period until that is over. A pod that was taken just
// before the shutdown began ends with those whose turn it is.
func (m *Manager) end(ctx context.Context) {
	logger := klog.FromContext(ctx)
	asked := map[types.UID]bool{}
	for i, period := range m.cfg.Periods {
		var group []*corev1.Pod
		for _, pod := range m.cfg.Pods.Active() {
			if !asked[pod.UID] && place(m.cfg.Periods, pod) <= i {
				asked[pod.UID] = true
				group = append(group, pod)
			}
		}
		if ctx.Err() != nil {
			return
		}
		for _, pod := range group {
			grace := period.Grace
			if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
				grace = min(grace, time.Duration(*own)*time.Second)
			}
			logger.Info("Ending pod before the node goes down", "pod", klog.KObj(pod), "gracePeriod", grace)
			m.cfg.Pods.End(ctx, pod, grace)
		}
		if left := m.await(ctx, group, period.Grace); left > 0 {
			logger.Info("Pods have not ended in time before the node goes down", "pods", left, "priority", period.Priority)
		}
	}
}

// await waits until pods have ended, and returns how many have not when the time is over.
func (m *Manager) await(ctx context.Context, pods []*corev1.Pod, most time.Duration) (left int) {
	deadline := m.cfg.Clock.NewTimer(most)
	defer deadline.Stop()
	tick := m.cfg.Clock.NewTicker(poll)
	defer tick.Stop()
	for {
		left = 0
		for _, pod := range pods {
			if !m.cfg.Pods.Stopped(pod.UID) {
				left++
			}
		}
		if left == 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return left
		case <-deadline.C():
			return left
		case <-tick.C():
		}
	}
}
