// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package upkeep decides when what is wanted of the kernel is written and when it is looked at; touch it for how soon a change counts and
// what a burst of changes costs.
package upkeep

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// shortest is the least time between the begins of two writes: what belongs together, as a Service and its endpoints, comes within.
	// After a write that takes long, the rest is as long, up to longest.
	shortest = 10 * time.Millisecond
	// longest is that time while changes keep coming, so that a burst of them becomes a few writes.
	longest = 100 * time.Millisecond
	// maxRetry is the most time after which a write that failed is tried again; the first time it is longest, then twice the time before.
	maxRetry = 30 * time.Second
	// maxPutOff is how many verifications in a row changes may interrupt: what somebody has taken away is missed until then.
	maxPutOff = 1
)

// Loop writes as soon as something has changed, less often while changes keep coming, and verifies from time to time.
type Loop struct {
	// Write brings the kernel up to date. An error is logged, and Write called again.
	Write func(context.Context) error
	// Verify tells whether what was written is still there; if not, it is written again. It is never called during Write, and its context
	// ends when there is something to write, which does not wait for long then. What it returns after that does not count.
	Verify func(context.Context) bool
	// VerifyPeriod is the time between two verifications.
	VerifyPeriod time.Duration
	// Failed is what the log says of an error.
	Failed string
	Clock  clock.WithTicker

	trigger chan struct{}
	putOff  int // verifications that were interrupted since one was not; only Run uses it
}

// New returns a loop that has nothing to write yet.
func New(l Loop) *Loop {
	l.trigger = make(chan struct{}, 1)
	return &l
}

// Poke asks for a write. Any number of pokes before it become one. It can be called at any time, by anybody.
func (l *Loop) Poke() {
	select {
	case l.trigger <- struct{}{}:
	default: // it is asked for already
	}
}

// Run writes once and then whenever it is to be, until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	verify := l.Clock.NewTicker(l.VerifyPeriod)
	defer verify.Stop()
	pause, retry := shortest, longest
	for {
		begun := l.Clock.Now()
		wait := pause
		if err := l.Write(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, l.Failed)
			wait, retry = retry, min(2*retry, maxRetry)
			l.Poke()
		} else {
			took := l.Clock.Since(begun)
			wait = max(wait-took, min(took, longest))
			retry = longest
		}
		if !l.rest(ctx, wait) {
			return
		}
		pause = min(2*pause, longest)
		if len(l.trigger) == 0 {
			pause = shortest
		}
		if !l.await(ctx, verify.C()) {
			return
		}
	}
}

// rest waits, and tells whether there is more to do then.
func (l *Loop) rest(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := l.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// await returns when there is something to write, or tells that there will not be.
func (l *Loop) await(ctx context.Context, verify <-chan time.Time) bool {
	for {
		select {
		case <-l.trigger:
			return true
		case <-verify:
			if !l.verify(ctx) {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// verify calls Verify, and interrupts it for what is to be written, unless that was done too often.
func (l *Loop) verify(ctx context.Context) (intact bool) {
	if l.putOff == maxPutOff {
		l.putOff = 0
		return l.Verify(ctx)
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan bool, 1)
	go func() { done <- l.Verify(limited) }()
	select {
	case intact := <-done:
		l.putOff = 0
		return intact
	case <-l.trigger:
		cancel()
		<-done
		l.putOff++
		return false // it is time to write
	}
}
