// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dra

import (
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Source tells of changes like an informer. Each handler is called for one change after the other, in their order, and may look
// at the objects meanwhile.
type Source struct {
	// list returns the objects that there are.
	list func() []any
	// parent is what the source itself hears by.
	parent cache.ResourceEventHandlerRegistration

	mu          sync.Mutex
	subscribers []*subscription // guarded by mu; replaced, never changed
	pending     []func()        // guarded by mu; calls to be made
	changes     int64           // guarded by mu
	delivering  sync.Mutex      // held by who makes them
}

// subscription is a handler that is called.
type subscription struct {
	cache.ResourceEventHandler
	parent cache.ResourceEventHandlerRegistration
}

// HasSynced tells whether the handler has heard of all that there was: from the source at once, and from the parent.
func (s *subscription) HasSynced() bool { return s.parent.HasSynced() }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (s *subscription) HasSyncedChecker() cache.DoneChecker { return s.parent.HasSyncedChecker() }

// AddEventHandler calls h for what there is and for what changes from now on. It may hear of an object twice.
func (s *Source) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	sub := &subscription{ResourceEventHandler: h, parent: s.parent}
	s.mu.Lock()
	s.subscribers = append(slices.Clone(s.subscribers), sub)
	s.mu.Unlock()
	for _, obj := range s.list() {
		s.push(func() { h.OnAdd(obj, true) })
	}
	s.deliver()
	return sub, nil
}

// RemoveEventHandler ends what AddEventHandler began. Calls under way still come.
func (s *Source) RemoveEventHandler(r cache.ResourceEventHandlerRegistration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = slices.DeleteFunc(slices.Clone(s.subscribers), func(sub *subscription) bool { return sub == r })
	return nil
}

func (s *Source) push(call func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, call)
}

// changed notes a change, of which deliver will tell: old is nil if the object is new, new if it is gone. It is called under the
// lock that makes the order of changes.
func (s *Source) changed(old, new any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	for _, sub := range s.subscribers {
		s.pending = append(s.pending, func() {
			switch {
			case old == nil:
				sub.OnAdd(new, false)
			case new == nil:
				sub.OnDelete(old)
			default:
				sub.OnUpdate(old, new)
			}
		})
	}
}

// Changes is how many there were. One is counted when lists show it: who asks, and lists then, misses none that was counted.
func (s *Source) Changes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}

// deliver tells of all that was noted before. No lock that a handler needs may be held.
func (s *Source) deliver() {
	s.delivering.Lock()
	defer s.delivering.Unlock()
	for {
		s.mu.Lock()
		calls := s.pending
		s.pending = nil
		s.mu.Unlock()
		if len(calls) == 0 {
			return
		}
		for _, call := range calls {
			call()
		}
	}
}

// relay returns a handler that passes on what it hears.
func (s *Source) relay() cache.ResourceEventHandler {
	pass := func(old, new any) {
		s.changed(old, new)
		s.deliver()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { pass(nil, obj) },
		UpdateFunc: pass,
		DeleteFunc: func(obj any) { pass(obj, nil) },
	}
}
