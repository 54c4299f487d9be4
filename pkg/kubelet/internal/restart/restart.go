// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package restart is the back-off of crashing containers. Touch it to change how fast a container restarts.
package restart

import "time"

const (
	// Initial is the first delay between an exit and the restart that follows it.
	Initial = 10 * time.Second
	// Max is where doubling ends by default.
	Max = 5 * time.Minute
	// Reset is how long a container must have run for its history to be forgotten.
	Reset = 2 * Max
)

// Backoff is the history of one container; the zero value is one that never restarted.
type Backoff struct {
	// Delay is what the next restart waits for, counted from the exit.
	Delay time.Duration
	// Restarted is when it was last restarted.
	Restarted time.Time
}

// Remaining is how long a container that exited at finished must still wait at now; 0 or less means start.
func (b Backoff) Remaining(finished, now time.Time) time.Duration {
	if b.Delay == 0 || finished.Sub(b.Restarted) > Reset {
		return 0
	}
	return b.Delay - max(now.Sub(finished), 0) // the clock may have been set back since
}

// Next is the history after a restart at now that follows an exit at finished: the first restart is immediate and arms the
// initial delay, each further one doubles it, up to most (KEP-4603).
func (b Backoff) Next(finished, now time.Time, most time.Duration) Backoff {
	if b.Delay == 0 || finished.Sub(b.Restarted) > Reset {
		return Backoff{Delay: min(Initial, most), Restarted: now}
	}
	return Backoff{Delay: min(2*b.Delay, most), Restarted: now}
}
