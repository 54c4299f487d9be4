// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
)

// Startup times how a node came up that is registered by this kubelet; of one that is there already nothing is told. It is safe for
// concurrent use.
type Startup struct {
	m                                                                  *Metrics
	boot                                                               time.Time
	preKubelet, preRegistration, registration, postRegistration, whole *metrics.Gauge

	mu                    sync.Mutex // guards what follows
	attempted, registered time.Time
	ready                 bool
}

// Startup makes it, once. boot is when the machine was started, zero if that is not known.
func (m *Metrics) Startup(boot time.Time) *Startup {
	return &Startup{
		m: m, boot: boot,
		preKubelet:      m.gauge("node_startup_pre_kubelet_duration_seconds", "Duration in seconds of node startup before kubelet starts."),
		preRegistration: m.gauge("node_startup_pre_registration_duration_seconds", "Duration in seconds of node startup before registration."),
		registration:    m.gauge("node_startup_registration_duration_seconds", "Duration in seconds of node startup during registration."),
		postRegistration: m.gauge("node_startup_post_registration_duration_seconds",
			"Duration in seconds of node startup after registration."),
		whole: m.gauge("node_startup_duration_seconds", "Duration in seconds of node startup in total."),
	}
}

// Registering notes that the node is looked for in the API, to be registered if it is not there.
func (s *Startup) Registering() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempted.IsZero() {
		s.attempted = s.m.clock.Now()
	}
}

// Registered notes that the node was not there, and is now.
func (s *Startup) Registered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.registered.IsZero() {
		return
	}
	s.registered = s.m.clock.Now()
	if !s.boot.IsZero() {
		s.preKubelet.Set(s.m.began.Sub(s.boot).Seconds())
	}
	s.preRegistration.Set(s.attempted.Sub(s.m.began).Seconds())
	s.registration.Set(s.registered.Sub(s.attempted).Seconds())
}

// Ready notes that the API server knows the node to be ready.
func (s *Startup) Ready() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.registered.IsZero() || s.ready {
		return
	}
	s.ready = true
	now := s.m.clock.Now()
	s.postRegistration.Set(now.Sub(s.registered).Seconds())
	if !s.boot.IsZero() {
		s.whole.Set(now.Sub(s.boot).Seconds())
	}
}
