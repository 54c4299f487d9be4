// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package scaler decides how many pods a revision has, of the requests that it had at the same time: the arithmetic of Knative's
// autoscaler (knative.dev/serving/pkg/autoscaler). Touch it to change how functions follow their load.
package scaler

import (
	"math"
	"time"
)

// The arithmetic's constants, Knative's defaults (config-autoscaler).
const (
	// StableWindow is over which the average decides in quiet times.
	StableWindow = 60 * time.Second
	// PanicWindow is over which it decides when load rises suddenly.
	PanicWindow = 6 * time.Second
	// PanicThreshold is how much of what the pods are for begins a panic.
	PanicThreshold = 2.0
	// Utilization is how much of the concurrency of a pod is aimed at.
	Utilization = 0.7
	// MaxScaleDownRate is by which factor the pods become fewer in one decision.
	MaxScaleDownRate = 2.0
	// HeldTooLong is how long a request is held beside pods that are busy before it counts as demand for more of them.
	HeldTooLong = 50 * time.Millisecond
)

// Spec is what a function says.
type Spec struct {
	// Concurrency is how many requests a pod has at most.
	Concurrency int
	// Min and Max are numbers of pods; Max is 0 if there is no limit.
	Min, Max int
	// Idle is how long nobody has called when the last pod goes.
	Idle time.Duration
}

// Observed is what is known of a revision.
type Observed struct {
	// Now is the time.
	Now time.Time
	// Ready is how many pods take requests.
	Ready int
	// Stable and Panic are the averages of requests at the same time, over the windows.
	Stable, Panic float64
	// Outstanding is how many requests there are now, of which Held wait for a pod, the oldest for HeldFor.
	Outstanding, Held int
	HeldFor           time.Duration
	// Last is when the last request ended or came; the zero time if there was none.
	Last time.Time
}

// State is what a decision leaves for the next.
type State struct {
	// PanicUntil is until when the number only rises; zero in quiet times.
	PanicUntil time.Time
	// PanicPods is the highest number of the panic.
	PanicPods int
	// Desired is the last decision.
	Desired int
}

// Decide returns how many pods there are to be.
func Decide(spec Spec, o Observed, s State) State {
	target := max(float64(spec.Concurrency)*Utilization, 1)
	if spec.Concurrency == 1 {
		target = 1
	}
	stable, panicking := pods(o.Stable, target), pods(o.Panic, target)
	if s.Desired > 0 { // not faster down than by half
		stable = max(stable, int(math.Floor(float64(s.Desired)/MaxScaleDownRate)))
	}
	desired := stable
	if o.Ready > 0 && o.Panic >= PanicThreshold*float64(o.Ready)*target {
		if s.PanicUntil.Before(o.Now) {
			s.PanicPods = 0
		}
		s.PanicUntil = o.Now.Add(StableWindow)
	}
	if o.Now.Before(s.PanicUntil) {
		s.PanicPods = max(s.PanicPods, panicking, s.Desired)
		desired = max(desired, s.PanicPods)
	} else {
		s.PanicUntil, s.PanicPods = time.Time{}, 0
	}
	// What waits now needs pods now, whatever the averages are.
	if o.Held > 0 && (o.Ready == 0 || o.HeldFor >= HeldTooLong) {
		desired = max(desired, pods(float64(o.Outstanding), float64(spec.Concurrency)))
	}
	if desired == 0 && (o.Outstanding > 0 || !o.Last.IsZero() && o.Now.Sub(o.Last) < spec.Idle) {
		desired = 1
	}
	if o.Outstanding == 0 && !o.Last.IsZero() && o.Now.Sub(o.Last) >= spec.Idle {
		desired, s.PanicUntil, s.PanicPods = 0, time.Time{}, 0
	}
	desired = max(desired, spec.Min)
	if spec.Max > 0 {
		desired = min(desired, spec.Max)
	}
	s.Desired = desired
	return s
}

func pods(concurrency, target float64) int { return int(math.Ceil(concurrency/target - 1e-9)) }
