// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ranges

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// batchTimeout bounds one write. It is made for several requests, so it does not end with one of them.
const batchTimeout = 30 * time.Second

// queue makes one write of the changes that come while another write is under way: of n changes at a time each would else be
// tried again for each of the others, n² times in all. The mutex guards the fields and is not held while anything is written.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	writing bool
}

// request is one change. err is set before done is closed.
type request struct {
	change func(Set) (Set, error)
	done   chan struct{}
	err    error
}

// write applies a change to what is stored, again if another server was faster.
type write func(ctx context.Context, change func(Set) (Set, error)) error

// do returns when the change has been written, or with the change's error or that of the write. If ctx ends before, the change
// may have been made or not, as with any write.
func (q *queue) do(ctx context.Context, change func(Set) (Set, error), w write) error {
	r := &request{change: change, done: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, r)
	first := !q.writing
	q.writing = true
	q.mu.Unlock()
	if first {
		go q.drain(context.WithoutCancel(ctx), w)
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		q.forget(r)
		return ctx.Err()
	}
}

// forget takes a request away that is not being written yet.
func (q *queue) forget(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(w *request) bool { return w == r })
}

// drain writes until nobody waits.
func (q *queue) drain(ctx context.Context, w write) {
	for {
		q.mu.Lock()
		batch := q.waiting
		q.waiting = nil
		q.writing = len(batch) > 0
		q.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		writeBatch(ctx, batch, w)
		for _, r := range batch {
			close(r.done)
		}
	}
}

// errNoChange keeps a batch in which every change has failed from being written.
var errNoChange = errors.New("no change")

// writeBatch makes the changes one after the other, and one write of them. One that fails changes nothing for the others.
func writeBatch(ctx context.Context, batch []*request, w write) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	err := w(ctx, func(s Set) (Set, error) {
		none := true
		for _, r := range batch {
			changed, err := r.change(s)
			if r.err = err; err == nil {
				s, none = changed, false
			}
		}
		if none {
			return nil, errNoChange
		}
		return s, nil
	})
	if err == nil || errors.Is(err, errNoChange) {
		return
	}
	for _, r := range batch {
		r.err = err
	}
}
