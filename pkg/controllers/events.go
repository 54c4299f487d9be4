// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// events records the events of one controller. Queues for a thousand of them, and who empties these, are made with the first
// event: most controllers of most clusters have none. Safe for concurrent use.
type events struct {
	scheme *runtime.Scheme
	source corev1.EventSource
	sink   record.EventSink
	logger logr.Logger
	clock  clock.PassiveClock

	mu sync.Mutex
	// The following are guarded by mu.
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	stopped     bool
	// allowances has an allowance for each subject that there have been events of lately.
	allowances *lru.Cache
}

// An object has so many events at once, and one more in that time, as upstream's recorder has it. That one finds out last, after
// it has merged an event with those before and made a patch of them, for each pod of a large Deployment. What is dropped
// here is not counted in the event that tells of similar ones.
const (
	eventBurst    = 25
	eventPeriod   = 5 * time.Minute
	maxAllowances = 4096
	eventsASecond = 1 / float32(eventPeriod/time.Second)
)

// subject is what events are about.
type subject struct {
	kind            string
	namespace, name string
	uid             types.UID
}

func subjectOf(object runtime.Object) (subject, bool) {
	if ref, ok := object.(*corev1.ObjectReference); ok {
		return subject{ref.Kind, ref.Namespace, ref.Name, ref.UID}, true
	}
	o, err := meta.Accessor(object)
	if err != nil {
		return subject{}, false
	}
	return subject{"", o.GetNamespace(), o.GetName(), o.GetUID()}, true
}

// allows takes one from the allowance of an object.
func (e *events) allows(object runtime.Object) bool {
	s, ok := subjectOf(object)
	if !ok {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.allowances == nil {
		e.allowances = lru.New(maxAllowances)
	}
	allowance, ok := e.allowances.Get(s)
	if !ok {
		allowance = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(eventsASecond, eventBurst, e.clock)
		e.allowances.Add(s, allowance)
	}
	return allowance.(flowcontrol.PassiveRateLimiter).TryAccept()
}

// Event implements record.EventRecorder.
func (e *events) Event(object runtime.Object, eventType, reason, message string) {
	if e.allows(object) {
		e.started().Event(object, eventType, reason, message)
	}
}

// Eventf implements record.EventRecorder.
func (e *events) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	if e.allows(object) {
		e.started().Eventf(object, eventType, reason, format, args...)
	}
}

// AnnotatedEventf implements record.EventRecorder.
func (e *events) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	if e.allows(object) {
		e.started().AnnotatedEventf(object, annotations, eventType, reason, format, args...)
	}
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
