// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package latest writes, beside the scheduling cycles, the last that was asked to be
// told of each object. Touch it when the way of trying again changes.
package latest

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	writers = 8
	// patience bounds a write.
	patience   = 30 * time.Second
	maxRetries = 5
)

// Writer writes values of objects. Those of one object are written in order, and of
// several that wait only the last. It is safe for concurrent use.
type Writer[K comparable, V any] struct {
	write func(context.Context, K, V) error
	queue workqueue.TypedRateLimitingInterface[K]

	mu      sync.Mutex
	pending map[K]V             // guarded by mu
	running map[K]chan struct{} // guarded by mu; closed when the write of an object has ended
}

// New returns a writer; Run must run for anything to be written. What fails is tried
// again, unless there is something newer by then, and given up after a while: the
// error names the object.
func New[K comparable, V any](write func(context.Context, K, V) error) *Writer[K, V] {
	return &Writer[K, V]{
		write:   write,
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[K]()),
		pending: map[K]V{},
		running: map[K]chan struct{}{},
	}
}

// Change asks for a value to be written. It is made of the one that waits, the zero V
// if none does.
func (w *Writer[K, V]) Change(key K, f func(V) V) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[key] = f(w.pending[key])
	w.queue.Add(key)
}

// Pending is the number of values that are not written yet.
func (w *Writer[K, V]) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending)
}

// Drop takes back what is not written yet. If something is being written, what is
// done to the object next must wait for the end of the channel that it returns: for
// 30 s at most, and of at most 8 objects at a time. It is nil if there is nothing.
func (w *Writer[K, V]) Drop(key K) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, key)
	return w.running[key]
}

// Run writes until ctx ends.
func (w *Writer[K, V]) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, w.queue.ShutDown)
	defer stop()
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for {
				key, down := w.queue.Get()
				if down {
					return
				}
				w.next(ctx, key)
				w.queue.Done(key)
			}
		})
	}
	all.Wait()
}

func (w *Writer[K, V]) next(ctx context.Context, key K) {
	w.mu.Lock()
	v, ok := w.pending[key]
	if !ok {
		w.mu.Unlock()
		w.queue.Forget(key)
		return
	}
	delete(w.pending, key)
	done := make(chan struct{})
	w.running[key] = done
	w.mu.Unlock()

	err := w.bounded(ctx, key, v)

	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, key)
	close(done)
	if err == nil || ctx.Err() != nil {
		w.queue.Forget(key)
		return
	}
	logger := klog.FromContext(ctx)
	if w.queue.NumRequeues(key) >= maxRetries {
		logger.Error(err, "Updating a status failed; giving up")
		w.queue.Forget(key)
		return
	}
	logger.Error(err, "Updating a status failed; retrying")
	if _, newer := w.pending[key]; !newer {
		w.pending[key] = v
	}
	w.queue.AddRateLimited(key)
}

func (w *Writer[K, V]) bounded(ctx context.Context, key K, v V) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.write(ctx, key, v)
}
