// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package prober runs the liveness, readiness and startup probes of containers. Touch it when a kind of probe is added
// or thresholds change meaning.
package prober

import corev1 "k8s.io/api/core/v1"

// Kind is which of a container's probes one is.
type Kind string

// The kinds, spelled as events say them.
const (
	Liveness  Kind = "Liveness"
	Readiness Kind = "Readiness"
	Startup   Kind = "Startup"
)

// Result is the outcome of a probe.
type Result int

const (
	// Unknown is a startup probe that has not decided yet.
	Unknown Result = iota
	// Success is of a container that is as it should be.
	Success
	// Failure is of one that is not.
	Failure
)

// State is the memory of one probe of one container.
type State struct {
	// Result is what thresholds have made of the outcomes.
	Result Result
	// Held: the container is about to be killed for this probe; no more probing.
	Held bool

	last Result
	run  int32
}

// Initial is the state before the first outcome: alive, not ready, not known to have started. adopted says that the
// container already ran, ready, under a kubelet before this one: it stays so until a probe says otherwise.
func Initial(kind Kind, adopted bool) State {
	switch {
	case kind == Liveness, adopted:
		return State{Result: Success}
	case kind == Readiness:
		return State{Result: Failure}
	default:
		return State{Result: Unknown}
	}
}

// Next is the state after outcome r.
func (s State) Next(kind Kind, p *corev1.Probe, r Result) State {
	if s.last == r {
		s.run++
	} else {
		s.last, s.run = r, 1
	}
	if r == Failure && s.run < threshold(p.FailureThreshold, 3) || r == Success && s.run < threshold(p.SuccessThreshold, 1) {
		return s
	}
	s.Result = r
	if r == Failure && kind != Readiness {
		s.Held = true
		s.run = 0
	}
	return s
}

func threshold(n, def int32) int32 {
	if n > 0 {
		return n
	}
	return def
}
