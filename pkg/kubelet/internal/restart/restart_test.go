// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b Backoff
	var got []time.Duration
	exit := t0
	for range 8 {
		got = append(got, b.Remaining(exit, exit))
		wait := max(0, b.Remaining(exit, exit))
		b = b.Next(exit, exit.Add(wait), Max)
		exit = exit.Add(wait + time.Second)
	}
	want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("restart %d: waits %v, want %v", i, got[i], want[i])
		}
	}
	if r := b.Remaining(b.Restarted.Add(Reset+time.Second), b.Restarted.Add(Reset+time.Second)); r > 0 {
		t.Errorf("after a long run the delay is %v, want none", r)
	}
	if r := b.Remaining(b.Restarted.Add(Reset-time.Second), b.Restarted.Add(Reset-time.Second)); r != Max {
		t.Errorf("after a run that is not long enough the delay is %v, want %v", r, Max)
	}
	exit = b.Restarted.Add(time.Minute)
	again := b.Next(exit, exit.Add(Max), Max)
	if exit = again.Restarted.Add(6 * time.Minute); again.Remaining(exit, exit) != Max {
		t.Errorf("after it has waited for %v and run for 6m the delay is %v, want %v", Max, again.Remaining(exit, exit), Max)
	}
	if n := b.Next(b.Restarted.Add(Reset+time.Second), b.Restarted.Add(Reset+time.Second), Max); n.Delay != Initial {
		t.Errorf("after a long run the next delay is %v, want %v", n.Delay, Initial)
	}
	if r := (Backoff{Delay: 40 * time.Second, Restarted: t0}).Remaining(t0.Add(time.Second), t0.Add(31*time.Second)); r != 10*time.Second {
		t.Errorf("remaining = %v, want 10s", r)
	}
	if r := (Backoff{Delay: 40 * time.Second, Restarted: t0}).Remaining(t0.Add(time.Second), t0.Add(-time.Hour)); r != 40*time.Second {
		t.Errorf("with a clock that was set back %v remain, want 40s", r)
	}
}

// A node may have them wait less, also the first time.
func TestBackoff_Most(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for most, want := range map[time.Duration][3]time.Duration{time.Second: {time.Second, time.Second, time.Second}, 15 * time.Second: {10 * time.Second, 15 * time.Second, 15 * time.Second}} {
		var b Backoff
		for i, w := range want {
			if b = b.Next(t0.Add(time.Duration(i)*time.Minute), t0.Add(time.Duration(i)*time.Minute), most); b.Delay != w {
				t.Errorf("at most %v, restart %d: %v, want %v", most, i, b.Delay, w)
			}
		}
	}
}
