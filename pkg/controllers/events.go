// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// events records the events of one controller. Queues for a thousand of them, and who empties these, are made with the first
// event: most controllers of most clusters have none. Safe for concurrent use.
type events struct {
	scheme *runtime.Scheme
	source corev1.EventSource
	sink   record.EventSink
	logger logr.Logger

	mu sync.Mutex
	// broadcaster, recorder and stopped are guarded by mu.
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	stopped     bool
}

// Event implements record.EventRecorder.
func (e *events) Event(object runtime.Object, eventType, reason, message string) {
	e.started().Event(object, eventType, reason, message)
}

// Eventf implements record.EventRecorder.
func (e *events) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	e.started().Eventf(object, eventType, reason, format, args...)
}

// AnnotatedEventf implements record.EventRecorder.
func (e *events) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	e.started().AnnotatedEventf(object, annotations, eventType, reason, format, args...)
}

// started returns what records, and drops what comes after the end.
func (e *events) started() record.EventRecorder {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return &record.FakeRecorder{}
	}
	if e.recorder == nil {
		e.broadcaster = record.NewBroadcaster(record.WithContext(klog.NewContext(context.Background(), e.logger)))
		e.broadcaster.StartRecordingToSink(e.sink)
		e.recorder = e.broadcaster.NewRecorder(e.scheme, e.source)
	}
	return e.recorder
}

// shutdown sends what is left and ends.
func (e *events) shutdown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	if e.broadcaster != nil {
		e.broadcaster.Shutdown()
	}
}
