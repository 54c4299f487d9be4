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
		b = b.Next(exit)
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
	if n := b.Next(b.Restarted.Add(Reset + time.Second)); n.Delay != Initial {
		t.Errorf("after a long run the next delay is %v, want %v", n.Delay, Initial)
	}
	if r := (Backoff{Delay: 40 * time.Second, Restarted: t0}).Remaining(t0.Add(time.Second), t0.Add(31*time.Second)); r != 10*time.Second {
		t.Errorf("remaining = %v, want 10s", r)
	}
}
