// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package pleg is the pod life-cycle event generator: it watches the container engine and says which pods changed.
// Touch it when the kubelet is slow to notice something, or lists too often.
package pleg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/observed"
)

// Config is what a PLEG is made from.
type Config struct {
	Runtime container.Runtime
	Clock   clock.Clock
	// Relist is the longest time between two looks at everything while events flow; 5 s if 0. Without events, one
	// second.
	Relist time.Duration
	// Changed is called for each pod that is not as it was. It must not block.
	Changed func(types.UID)
}

// PLEG is level-triggered: events only say when to look. Whatever an event was, or if it was lost, the next listing
// tells the truth.
type PLEG struct {
	cfg  Config
	list singleList
}

// New returns a PLEG.
func New(cfg Config) *PLEG {
	if cfg.Relist == 0 {
		cfg.Relist = 5 * time.Second
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &PLEG{cfg: cfg, list: singleList{runtime: cfg.Runtime, clock: cfg.Clock, err: errors.New("the container engine has not been asked yet")}}
}

// Snapshot is all that the engine had at one time.
type Snapshot struct {
	// Began is when the listing was asked for: what happened before it is in Pods.
	Began time.Time
	Pods  map[types.UID]*observed.Pod
}

// Since returns a snapshot that began no earlier than t, listing if need be. Callers who wait share one listing.
func (p *PLEG) Since(ctx context.Context, t time.Time) (*Snapshot, error) {
	return p.list.since(ctx, t)
}

// Healthy returns the error of the last listing.
func (p *PLEG) Healthy() error {
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
	return p.list.err
}

// Start watches until ctx ends.
func (p *PLEG) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var events <-chan container.Event
	var before map[types.UID]*observed.Pod
	timer := p.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		if events == nil {
			// Subscribing comes before listing, or a change between the two would be missed.
			ch, err := p.cfg.Runtime.Events(ctx)
			if err != nil {
				logger.V(2).Info("Container engine gives no events", "err", err)
			} else {
				events = ch
			}
		}
		snap, err := p.list.since(ctx, p.cfg.Clock.Now())
		if err == nil {
			for uid, pod := range snap.Pods {
				if !observed.Same(before[uid], pod) {
					p.cfg.Changed(uid)
				}
			}
			for uid := range before {
				if snap.Pods[uid] == nil {
					p.cfg.Changed(uid)
				}
			}
			before = snap.Pods
		} else if ctx.Err() == nil {
			logger.Error(err, "Listing containers failed")
		}
		wait := p.cfg.Relist
		if events == nil || err != nil {
			wait = min(wait, time.Second)
		}
		if !timer.Stop() {
			select {
			case <-timer.C():
			default:
			}
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
		case _, ok := <-events:
			if !ok || !drain(events) {
				events = nil
			}
		}
	}
}

// drain takes the events that are already there, because one listing answers them all. It returns false when the
// stream has ended.
func drain(events <-chan container.Event) bool {
	for {
		select {
		case _, ok := <-events:
			if !ok {
				return false
			}
		default:
			return true
		}
	}
}

// singleList lets one listing at a time run and gives its result to all that asked before it began.
type singleList struct {
	runtime container.Runtime
	clock   clock.Clock

	mu      sync.Mutex // guards the fields below
	last    *Snapshot
	err     error
	running chan struct{} // closed when the listing under way ends, nil if none is
}

func (l *singleList) since(ctx context.Context, t time.Time) (*Snapshot, error) {
	for {
		l.mu.Lock()
		if l.last != nil && !l.last.Began.Before(t) {
			defer l.mu.Unlock()
			return l.last, nil
		}
		if wait := l.running; wait != nil {
			l.mu.Unlock()
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-wait:
			}
			continue
		}
		done := make(chan struct{})
		l.running = done
		began := l.clock.Now()
		l.mu.Unlock()

		sandboxes, containers, err := l.runtime.List(ctx)
		l.mu.Lock()
		l.running = nil
		close(done)
		if err != nil {
			err = fmt.Errorf("listing containers: %w", err)
			if ctx.Err() == nil {
				l.err = err
			}
			l.mu.Unlock()
			return nil, err
		}
		l.err = nil
		l.last = &Snapshot{Began: began, Pods: observed.Group(sandboxes, containers)}
		snap := l.last
		l.mu.Unlock()
		return snap, nil
	}
}
