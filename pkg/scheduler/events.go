// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
)

// maxEvents bounds the Events that are written at once. The broadcaster begins with each as soon as it is there, so that thousands of pods
// without a node have thousands of requests on the way; the API server's priority and fairness counts them with the Bindings, and when
// too many wait refuses both, for seconds.
const maxEvents = 8

// eventSink writes as many Events at once as there are slots.
type eventSink struct {
	sink  events.EventSink
	slots chan struct{}
}

func newEventSink(sink events.EventSink) *eventSink {
	return &eventSink{sink: sink, slots: make(chan struct{}, maxEvents)}
}

// slot runs write when there is one.
func (s *eventSink) slot(ctx context.Context, write func() (*eventsv1.Event, error)) (*eventsv1.Event, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.slots }()
	return write()
}

// Create implements events.EventSink.
func (s *eventSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return s.slot(ctx, func() (*eventsv1.Event, error) { return s.sink.Create(ctx, event) })
}

// Update implements events.EventSink.
func (s *eventSink) Update(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return s.slot(ctx, func() (*eventsv1.Event, error) { return s.sink.Update(ctx, event) })
}

// Patch implements events.EventSink.
func (s *eventSink) Patch(ctx context.Context, event *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	return s.slot(ctx, func() (*eventsv1.Event, error) { return s.sink.Patch(ctx, event, patch) })
}
