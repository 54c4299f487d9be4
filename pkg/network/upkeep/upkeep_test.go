// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package upkeep

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

// write is a write that takes a time and may fail.
type write struct {
	took   time.Duration
	failed bool
}

func run(t *testing.T, intact func() bool, writes ...write) (l *Loop, begins func() []time.Duration) {
	t.Helper()
	return runVerified(t, func(context.Context) bool { return intact() }, writes...)
}

// runVerified starts a loop whose writes take what they are told, and nothing after that, and returns when each began after the start.
func runVerified(t *testing.T, verify func(context.Context) bool, writes ...write) (l *Loop, begins func() []time.Duration) {
	t.Helper()
	start := time.Now()
	var begun []time.Duration
	l = New(Loop{
		Clock: clock.RealClock{}, VerifyPeriod: time.Minute, Failed: "failed",
		Verify: verify,
		Write: func(context.Context) error {
			begun = append(begun, time.Since(start))
			if len(begun) > len(writes) {
				return nil
			}
			w := writes[len(begun)-1]
			pass(w.took)
			if w.failed {
				return errors.New("busy")
			}
			return nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	return l, func() []time.Duration {
		cancel()
		<-done
		return begun
	}
}

// pass lets the time of a bubble pass.
func pass(d time.Duration) { <-time.After(d) }

func intact() bool { return true }

const ms = time.Millisecond

func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		pokes  []time.Duration
		writes []write
		want   []time.Duration
	}{
		"the first": {nil, nil, []time.Duration{0}},
		"one change after a quiet time, and what belongs to it": {
			[]time.Duration{time.Second, time.Second + 4*ms}, nil, []time.Duration{0, time.Second, time.Second + 10*ms},
		},
		"a write that takes longer than the pause": {
			[]time.Duration{4 * ms}, []write{{took: 25 * ms}}, []time.Duration{0, 50 * ms},
		},
		"a write that takes very long": {
			[]time.Duration{4 * ms}, []write{{took: time.Second}}, []time.Duration{0, time.Second + 100*ms},
		},
		"changes without end": {
			every(ms, 400*ms), nil, []time.Duration{0, 10 * ms, 30 * ms, 70 * ms, 150 * ms, 250 * ms, 350 * ms, 450 * ms},
		},
		"a failure": {
			nil, []write{{failed: true}, {failed: true}, {}}, []time.Duration{0, 100 * ms, 300 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, begins := run(t, intact, tc.writes...)
				start := time.Now()
				for _, at := range tc.pokes {
					pass(at - time.Since(start))
					l.Poke()
				}
				pass(2 * time.Second)
				if diff := cmp.Diff(tc.want, begins()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func every(period, end time.Duration) (all []time.Duration) {
	for at := period; at < end; at += period {
		all = append(all, at)
	}
	return all
}

func TestRun_Verifies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed atomic.Bool
		_, begins := run(t, func() bool { return !changed.Swap(false) })
		pass(90 * time.Second)
		changed.Store(true)
		pass(90 * time.Second)
		if diff := cmp.Diff([]time.Duration{0, 2 * time.Minute}, begins()); diff != "" {
			t.Error(diff)
		}
	})
}

// A verification that takes long holds up no change, but is not put off for ever.
func TestRun_VerificationIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var began, ended []time.Duration
		l, begins := runVerified(t, func(ctx context.Context) bool {
			began = append(began, time.Since(start))
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
			}
			ended = append(ended, time.Since(start))
			return true
		})
		for range 5 { // one second after a verification has begun
			pass(time.Minute + time.Second - time.Since(start)%time.Minute)
			l.Poke()
		}
		pass(30 * time.Second)
		minutes := func(seconds ...int) (all []time.Duration) {
			for i, s := range seconds {
				all = append(all, time.Duration(i+1)*time.Minute+time.Duration(s)*time.Second)
			}
			return all
		}
		if diff := cmp.Diff(minutes(0, 0, 0, 0, 0), began); diff != "" {
			t.Errorf("verifications begin: %s", diff)
		}
		if diff := cmp.Diff(minutes(1, 20, 1, 20, 1), ended); diff != "" {
			t.Errorf("verifications end: %s", diff)
		}
		if diff := cmp.Diff(append([]time.Duration{0}, minutes(1, 20, 1, 20, 1)...), begins()); diff != "" {
			t.Errorf("writes: %s", diff)
		}
	})
}
