// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Timeout is how long Eventually waits. It is far above what anything takes on a busy machine with the race detector, and
// reached in failures only.
const Timeout = time.Minute

// Eventually waits until check returns nil. Each error says what is missing yet; the last one becomes the test's failure.
func Eventually(tb testing.TB, what string, check func() error) {
	tb.Helper()
	if err := poll(Timeout, check); err != nil {
		tb.Fatalf("%s: still not after %v: %v", what, Timeout, err)
	}
}

// Await returns the first event of a watch that accept wants. It stops the watch.
func Await[T runtime.Object](tb testing.TB, w watch.Interface, what string, accept func(watch.EventType, T) bool) T {
	tb.Helper()
	defer w.Stop()
	deadline := time.NewTimer(Timeout)
	defer deadline.Stop()
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				tb.Fatalf("%s: the watch ended", what)
			}
			if e.Type == watch.Error {
				tb.Fatalf("%s: the watch failed: %v", what, apierrors.FromObject(e.Object))
			}
			if obj, is := e.Object.(T); is && accept(e.Type, obj) {
				return obj
			}
		case <-deadline.C:
			tb.Fatalf("%s: no such event in %v", what, Timeout)
		}
	}
}

// Observe calls see with every event of a watch until the function it returns is called. That one waits for the last call.
func Observe[T runtime.Object](tb testing.TB, start func(context.Context) (watch.Interface, error), see func(watch.EventType, T)) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := start(ctx)
	if err != nil {
		cancel()
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if obj, is := e.Object.(T); is {
				see(e.Type, obj)
			}
		}
	}()
	stop = func() {
		w.Stop()
		cancel()
		<-done
	}
	tb.Cleanup(stop)
	return stop
}

// final is an error that waiting longer does not change.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

func poll(timeout time.Duration, check func() error) error {
	deadline := time.Now().Add(timeout)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		var end final
		if err == nil || errors.As(err, &end) || time.Now().After(deadline) {
			return err
		}
		<-ticker.C
	}
}
