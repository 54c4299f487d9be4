// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package scaler

import (
	"math"
	"testing"
	"time"
)

var noon = time.Unix(1_700_000_000, 0)

func TestDecide(t *testing.T) {
	t.Parallel()
	spec := Spec{Concurrency: 10, Max: 20, Idle: time.Minute}
	at := func(o Observed) Observed { o.Now = noon; return o }
	tests := []struct {
		name  string
		spec  Spec
		o     Observed
		state State
		want  int
		panic bool
	}{
		{name: "nobody has called", spec: spec, o: at(Observed{}), want: 0},
		{name: "the first request", spec: spec, o: at(Observed{Outstanding: 1, Held: 1}), want: 1},
		{name: "many first requests", spec: spec, o: at(Observed{Outstanding: 45, Held: 45}), want: 5},
		{name: "more than there may be", spec: spec, o: at(Observed{Outstanding: 1000, Held: 1000}), want: 20},
		{name: "no limit", spec: Spec{Concurrency: 1, Idle: time.Minute}, o: at(Observed{Outstanding: 50, Held: 50}), want: 50},
		{name: "held for a moment only", spec: spec, o: at(Observed{Ready: 1, Outstanding: 12, Held: 2, HeldFor: time.Millisecond, Last: noon, Stable: 5, Panic: 5}), want: 1},
		{name: "held too long", spec: spec, o: at(Observed{Ready: 1, Outstanding: 12, Held: 2, HeldFor: HeldTooLong, Last: noon, Stable: 5, Panic: 5}), want: 2},
		{name: "as many as the average needs", spec: spec, o: at(Observed{Ready: 3, Stable: 21, Panic: 21, Outstanding: 21, Last: noon}), want: 3},
		{name: "a panic", spec: spec, o: at(Observed{Ready: 2, Stable: 7, Panic: 28, Outstanding: 20, Last: noon}), state: State{Desired: 2}, want: 4, panic: true},
		{name: "no fewer in a panic", spec: spec, o: at(Observed{Ready: 8, Stable: 7, Panic: 1, Outstanding: 1, Last: noon}), state: State{Desired: 8, PanicPods: 8, PanicUntil: noon.Add(time.Second)}, want: 8, panic: true},
		{name: "a panic that is over", spec: spec, o: at(Observed{Ready: 8, Stable: 7, Panic: 1, Outstanding: 1, Last: noon}), state: State{Desired: 8, PanicPods: 8, PanicUntil: noon.Add(-time.Second)}, want: 4},
		{name: "quiet, but not long enough", spec: spec, o: at(Observed{Ready: 1, Last: noon.Add(-59 * time.Second)}), state: State{Desired: 1}, want: 1},
		{name: "idle", spec: spec, o: at(Observed{Ready: 1, Last: noon.Add(-time.Minute)}), state: State{Desired: 1}, want: 0},
		{name: "idle after many", spec: spec, o: at(Observed{Ready: 9, Stable: 3, Last: noon.Add(-time.Minute)}), state: State{Desired: 9, PanicPods: 9, PanicUntil: noon.Add(time.Second)}, want: 0},
		{name: "always some", spec: Spec{Concurrency: 10, Min: 2, Max: 20, Idle: time.Minute}, o: at(Observed{Ready: 2, Last: noon.Add(-time.Hour)}), want: 2},
		{name: "one request that takes longer than idle", spec: spec, o: at(Observed{Ready: 1, Outstanding: 1, Stable: 1, Panic: 1, Last: noon.Add(-time.Hour)}), state: State{Desired: 1}, want: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := Decide(test.spec, test.o, test.state)
			if got.Desired != test.want || !got.PanicUntil.IsZero() != test.panic {
				t.Errorf("got %+v, want %d pods, panic %v", got, test.want, test.panic)
			}
		})
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	near := func(got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.02 {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	var w Window
	near(w.Average(noon, PanicWindow), 0)
	w.Record(noon, 10)
	w.Record(noon.Add(3*time.Second), 0)
	near(w.Average(noon.Add(3*time.Second), PanicWindow), 10) // 10 since the first
	near(w.Average(noon.Add(6*time.Second), StableWindow), 5)
	near(w.Average(noon.Add(30*time.Second), PanicWindow), 0)
	near(w.Average(noon.Add(30*time.Second), StableWindow), 1)
	w.Record(noon.Add(100*time.Second), 4)
	near(w.Average(noon.Add(160*time.Second+time.Hour), StableWindow), 4) // nothing has changed since
	w.Record(noon.Add(161*time.Second+time.Hour), 0)
	near(w.Average(noon.Add(300*time.Second+time.Hour), StableWindow), 0)
}
