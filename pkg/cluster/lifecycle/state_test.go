// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"testing"
)

var (
	states     = []State{Absent, Beginning, Starting, Running, Stopped, Purging}
	operations = []Operation{Up, Down, Purge}
)

func TestNext(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		op    Operation
		state State
		alive bool
		want  Step
	}{
		{Up, Absent, false, Start},
		{Up, Beginning, false, Undo},
		{Up, Starting, false, Undo},
		{Up, Running, false, Start},
		{Up, Stopped, false, Start},
		{Up, Purging, false, Erase},
		{Up, Beginning, true, Await},
		{Up, Starting, true, Await},
		{Up, Running, true, Await},

		{Down, Absent, false, Nothing},
		{Down, Beginning, false, Undo},
		{Down, Starting, false, Undo},
		{Down, Running, false, Clear},
		{Down, Stopped, false, Nothing},
		{Down, Purging, false, Erase},
		{Down, Beginning, true, Stop},
		{Down, Starting, true, Stop},
		{Down, Running, true, Stop},

		{Purge, Absent, false, Nothing},
		{Purge, Beginning, false, Undo},
		{Purge, Starting, false, Undo},
		{Purge, Running, false, Clear},
		{Purge, Stopped, false, Erase},
		{Purge, Purging, false, Erase},
		{Purge, Beginning, true, Stop},
		{Purge, Starting, true, Stop},
		{Purge, Running, true, Stop},
	} {
		name := fmt.Sprintf("%s of %s", tc.op, tc.state)
		if tc.alive {
			name += ", alive"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Next(tc.op, tc.state, tc.alive); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// model is a cluster as the steps see it.
type model struct {
	state  State
	before State // of Starting
	alive  bool
}

// outcomes are the models that a step may leave behind: done, or cut off at any place.
func outcomes(m model, s Step) []model {
	switch s {
	case Await:
		return []model{{state: Running, alive: true}, {state: m.state, before: m.before}, {state: Running}}
	case Stop:
		return []model{{state: m.state, before: m.before}, {state: Running}} // it may have got to Running just before its end
	case Undo:
		after := model{state: Absent}
		if m.state == Starting {
			after.state = m.before
		}
		return []model{m, after}
	case Start:
		begun := model{state: Beginning}
		if m.state != Absent {
			begun = model{state: Starting, before: m.state}
		}
		alive := begun
		alive.alive = true
		return []model{m, begun, alive, {state: Running, alive: true}, {state: Running}}
	case Clear:
		return []model{m, {state: Stopped}}
	case Erase:
		return []model{m, {state: Purging}, {state: Absent}}
	}
	return []model{m}
}

// reached says whether an operation has what it wants.
func reached(op Operation, m model) bool {
	switch op {
	case Up:
		return m.state == Running && m.alive
	case Down:
		return !m.alive && (m.state == Stopped || m.state == Absent)
	}
	return !m.alive && m.state == Absent
}

// Wherever any sequence of operations is cut off, each operation that is then let through gets what it wants, in a few
// steps and without a state that has no way on.
func TestNext_EveryCrashHasAWayOn(t *testing.T) {
	t.Parallel()
	seen := map[model]bool{{state: Absent}: true}
	for todo := []model{{state: Absent}}; len(todo) > 0; todo = todo[1:] {
		for _, op := range operations {
			for _, m := range outcomes(todo[0], Next(op, todo[0].state, todo[0].alive)) {
				if !seen[m] {
					seen[m] = true
					todo = append(todo, m)
				}
			}
		}
	}
	found := map[State]bool{}
	for m := range seen {
		found[m.state] = true
		for _, op := range operations {
			at := m
			for steps := 0; !reached(op, at); steps++ {
				step := Next(op, at.state, at.alive)
				all := outcomes(at, step)
				if step == Nothing || steps > len(states) {
					t.Fatalf("%s of %+v stays at %+v", op, m, at)
				}
				at = done(at, step, all)
			}
			if op != Up && Next(op, at.state, at.alive) != Nothing {
				t.Errorf("%s of %+v does not rest at %+v", op, m, at)
			}
		}
	}
	for _, s := range states {
		if !found[s] {
			t.Errorf("nothing leads to %s", s)
		}
	}
}

// done is the outcome of a step that was let through.
func done(m model, s Step, all []model) model {
	switch s {
	case Await, Stop:
		return all[0]
	case Start:
		return model{state: Running, alive: true}
	case Nothing:
		return m
	}
	return all[len(all)-1]
}
