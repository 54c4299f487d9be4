// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	eventsv1 "k8s.io/api/events/v1"
)

// slowSink answers when it is told to.
type slowSink struct {
	now     atomic.Int32
	answers chan error
}

func (s *slowSink) write(context.Context) (*eventsv1.Event, error) {
	s.now.Add(1)
	defer s.now.Add(-1)
	return &eventsv1.Event{}, <-s.answers
}

func (s *slowSink) Create(ctx context.Context, _ *eventsv1.Event) (*eventsv1.Event, error) {
	return s.write(ctx)
}

func (s *slowSink) Update(ctx context.Context, _ *eventsv1.Event) (*eventsv1.Event, error) {
	return s.write(ctx)
}

func (s *slowSink) Patch(ctx context.Context, _ *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return s.write(ctx)
}

// However many events there are, few are written at once, and those that wait end with the scheduler.
func TestEventSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowSink{answers: make(chan error)}
		sink := newEventSink(slow)
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 30)
		for range 10 {
			for _, write := range []func() (*eventsv1.Event, error){
				func() (*eventsv1.Event, error) { return sink.Create(ctx, nil) },
				func() (*eventsv1.Event, error) { return sink.Update(ctx, nil) },
				func() (*eventsv1.Event, error) { return sink.Patch(ctx, nil, nil) },
			} {
				go func() {
					_, err := write()
					errs <- err
				}()
			}
		}
		refused := errors.New("refused")
		for _, answer := range []error{nil, refused} {
			synctest.Wait()
			if n := slow.now.Load(); n != maxEvents {
				t.Errorf("%d are written at once, want %d", n, maxEvents)
			}
			slow.answers <- answer
			if err := <-errs; !errors.Is(err, answer) {
				t.Errorf("got %v, want %v", err, answer)
			}
		}
		synctest.Wait()
		cancel()
		for range 30 - 2 - maxEvents {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Errorf("what waits ends with %v", err)
			}
		}
		close(slow.answers)
		for range maxEvents {
			if err := <-errs; err != nil {
				t.Errorf("what is being written ends with %v", err)
			}
		}
	})
}
