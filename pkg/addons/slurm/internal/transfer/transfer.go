// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package transfer runs what takes longer than a controller may look at an object: one transfer per object, beside its passes, which ask what
// has become of it. Touch it to change how many there are at once, or when one has stalled.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// State is how far a transfer is.
type State int

// States of a transfer.
const (
	// Waiting: as many run as may; it is to be asked for again.
	Waiting State = iota
	// Running: it runs.
	Running
	// Ended: it has ended, well without an error. Who asks again begins another.
	Ended
)

var errEnded = errors.New("the process ends")

// Transfers are those of a process. Safe for concurrent use.
type Transfers struct {
	limit   int
	timeout time.Duration

	mu      sync.Mutex
	closed  bool
	running map[types.UID]*transfer // until somebody has been told of the end
	active  int
	wait    sync.WaitGroup
}

type transfer struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // once done is closed
}

// New returns Transfers of which limit run at once, each for timeout at most.
func New(limit int, timeout time.Duration) *Transfers {
	return &Transfers{limit: limit, timeout: timeout, running: map[types.UID]*transfer{}}
}

// Start ends all transfers when ctx ends, and waits until they have. None begins after that. It implements manager.Runnable.
func (t *Transfers) Start(ctx context.Context) error {
	<-ctx.Done()
	t.mu.Lock()
	t.closed = true
	for _, r := range t.running {
		r.cancel(errEnded)
	}
	t.mu.Unlock()
	t.wait.Wait()
	return nil
}

// Look returns how far the transfer of an object is, which it begins unless there is one. do has to end soon after its context does, whose
// cause is what to say then.
func (t *Transfers) Look(object types.UID, do func(context.Context) error) (State, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, ok := t.running[object]; ok {
		select {
		case <-r.done:
			delete(t.running, object)
			return Ended, r.err
		default:
			return Running, nil
		}
	}
	if t.closed || t.active >= t.limit {
		return Waiting, nil
	}
	ctx, cancelTimeout := context.WithTimeoutCause(context.Background(), t.timeout, fmt.Errorf("it took longer than %s", t.timeout))
	ctx, cancel := context.WithCancelCause(ctx)
	r := &transfer{cancel: cancel, done: make(chan struct{})}
	t.running[object] = r
	t.active++
	t.wait.Go(func() {
		defer cancelTimeout()
		defer cancel(nil)
		r.err = do(ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.active--
		close(r.done)
	})
	return Running, nil
}

// Stop ends the transfer of an object, if there is one, and waits until it has or ctx ends.
func (t *Transfers) Stop(ctx context.Context, object types.UID) error {
	t.mu.Lock()
	r, ok := t.running[object]
	t.mu.Unlock()
	if !ok {
		return nil
	}
	r.cancel(errors.New("the object is deleted"))
	select {
	case <-r.done:
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.running[object] == r {
			delete(t.running, object)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pipe has from write what to reads, and ends both when nothing passes for as long as stall. It returns once both have ended, the error of the
// one that ended first if that one has an error, since it explains the other's. to has to read to the end.
func Pipe(ctx context.Context, stall time.Duration, from func(context.Context, io.Writer) error, to func(context.Context, io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing came or went for %s", stall)) })
	defer timer.Stop()
	reader, writer := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = writer.CloseWithError(context.Cause(ctx)) })
	defer stop()
	written := make(chan error, 1)
	go func() {
		err := from(ctx, writing(func(p []byte) (int, error) {
			timer.Reset(stall)
			return writer.Write(p)
		}))
		written <- err // before who reads knows that there is no more
		_ = writer.CloseWithError(err)
	}()
	err := to(ctx, reader)
	select {
	case before := <-written:
		if before != nil {
			err = before
		}
	default: // nobody reads what is written yet
		if err == nil {
			err = errors.New("not all was taken")
		}
		cancel(err)
		_ = reader.CloseWithError(err)
		<-written
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// writing is an io.Writer.
type writing func([]byte) (int, error)

func (w writing) Write(p []byte) (int, error) { return w(p) }
