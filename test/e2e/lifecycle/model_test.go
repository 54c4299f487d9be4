// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// state is what a user can tell of a cluster, and three things that only later operations tell apart.
type state string

const (
	absent   state = "absent"
	down     state = "down" // by down or not: the data are there, and no process
	up       state = "up"
	first    state = "first start under way, without a parent"
	again    state = "further start under way, without a parent"
	cutFirst state = "first start cut off"
	cutAgain state = "further start cut off"
	purging  state = "purge cut off"
)

// verb is what a worker does.
type verb string

const (
	doUp    verb = "up"
	doDown  verb = "down"
	doPurge verb = "down --purge"
	doKill  verb = "kill -9 of the cluster's process"
)

// event is one thing that was done to a cluster.
type event struct {
	verb       verb
	begin, end time.Time
	// killed says that the command was killed before its end.
	killed bool
	// code is how it ended else. Of doKill: 0 if there was a process, else 1.
	code   int
	output string
}

func (e event) String() string {
	end := fmt.Sprintf("exit code %d", e.code)
	if e.killed {
		end = "killed"
	}
	return fmt.Sprintf("%s..%s %s: %s", e.begin.Format("05.000"), e.end.Format("05.000"), e.verb, end)
}

// after are the states that an event may lead to if nothing else happens meanwhile.
func (e event) after(s state) []state {
	switch e.verb {
	case doUp:
		return e.afterUp(s)
	case doDown:
		done := rest(s)
		if !e.killed {
			return done
		}
		return append(killed(s), append(done, s)...)
	case doPurge:
		if !e.killed {
			return []state{absent}
		}
		if s == absent {
			return []state{absent}
		}
		return append(append(killed(s), rest(s)...), s, purging, absent)
	case doKill:
		if e.code == 0 {
			return killed(s)
		}
	}
	return []state{s}
}

func (e event) afterUp(s state) []state {
	switch {
	case !e.killed && e.code == 0:
		return []state{up}
	case !e.killed: // undone
		return rest(s)
	case s == up: // who only waits takes nothing with it
		return []state{up}
	case s == absent || s == cutFirst || s == purging:
		return []state{s, absent, cutFirst, first, up, purging}
	case s == down || s == cutAgain:
		return []state{s, down, cutAgain, again, up}
	}
	return []state{s, up, down, cutFirst, cutAgain}
}

// failed are the events that went wrong. That a start fails is right only if its process was killed meanwhile.
func failed(events []event) []event {
	return slices.DeleteFunc(slices.Clone(events), func(e event) bool {
		killed := slices.ContainsFunc(events, func(k event) bool {
			return k.verb == doKill && k.code == 0 && !k.end.Before(e.begin) && !k.begin.After(e.end)
		})
		return e.verb == doKill || e.killed || e.code == 0 || e.verb == doUp && killed
	})
}

// rest is what down makes of a state.
func rest(s state) []state {
	switch s {
	case absent, cutFirst, purging:
		return []state{absent}
	case first:
		return []state{absent, down}
	}
	return []state{down}
}

// killed is what the death of the process makes of a state.
func killed(s state) []state {
	switch s {
	case up:
		return []state{down}
	case first:
		return []state{cutFirst, down}
	case again:
		return []state{cutAgain, down}
	}
	return []state{s}
}

// serial are the states that a serial order of the events could have led to, from any of the given ones. An event that had
// ended when another began is before it.
func serial(from []state, events []event) []state {
	type node struct {
		done uint
		at   state
	}
	seen := map[node]bool{}
	var ends []state
	var visit func(node)
	visit = func(n node) {
		if seen[n] {
			return
		}
		seen[n] = true
		if n.done == 1<<len(events)-1 {
			ends = append(ends, n.at)
			return
		}
		for i, e := range events {
			if n.done&(1<<i) != 0 || waits(events, n.done, e) {
				continue
			}
			for _, next := range e.after(n.at) {
				visit(node{n.done | 1<<i, next})
			}
		}
	}
	for _, s := range from {
		visit(node{0, s})
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

// waits reports whether an event that is not done had ended when e began.
func waits(events []event, done uint, e event) bool {
	for i, o := range events {
		if done&(1<<i) == 0 && o.end.Before(e.begin) {
			return true
		}
	}
	return false
}

// at is an event from one time to another.
func at(v verb, from, to int, code int) event {
	zero := time.Unix(0, 0)
	return event{verb: v, begin: zero.Add(time.Duration(from)), end: zero.Add(time.Duration(to)), code: code}
}

func TestFailed(t *testing.T) {
	t.Parallel()
	cutOff := at(doDown, 0, 1, 1)
	cutOff.killed = true
	for _, tc := range []struct {
		name   string
		events []event
		want   int
	}{
		{"nothing", []event{at(doUp, 0, 1, 0), at(doKill, 0, 1, 1), cutOff}, 0},
		{"a start", []event{at(doUp, 0, 1, 1)}, 1},
		{"a start whose process is killed", []event{at(doKill, 2, 3, 0), at(doUp, 1, 2, 1)}, 0},
		{"a start after a kill", []event{at(doKill, 0, 1, 0), at(doUp, 2, 3, 1)}, 1},
		{"a start before a kill", []event{at(doUp, 0, 1, 1), at(doKill, 2, 3, 0)}, 1},
		{"a start with a kill of nobody", []event{at(doUp, 0, 2, 1), at(doKill, 0, 1, 1)}, 1},
		{"what a kill does not excuse", []event{at(doDown, 0, 2, 1), at(doPurge, 0, 2, 1), at(doKill, 0, 1, 0)}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := failed(tc.events); len(got) != tc.want {
				t.Errorf("got %v, want %d", got, tc.want)
			}
		})
	}
}

func TestSerial(t *testing.T) {
	t.Parallel()
	dead := func(e event) event {
		e.killed = true
		return e
	}
	for _, tc := range []struct {
		name   string
		from   state
		events []event
		want   string
	}{
		{"nothing", down, nil, "down"},
		{"one after the other", absent, []event{at(doUp, 0, 1, 0), at(doDown, 2, 3, 0)}, "down"},
		{"at once", absent, []event{at(doUp, 0, 2, 0), at(doDown, 1, 3, 0)}, "down, up"},
		{"two starts at once", absent, []event{at(doUp, 0, 2, 0), at(doUp, 0, 2, 0)}, "up"},
		{"a purge and a start at once", down, []event{at(doUp, 0, 2, 0), at(doPurge, 1, 3, 0)}, "absent, up"},
		{"a process killed", up, []event{at(doKill, 0, 1, 0)}, "down"},
		{"a start that failed", absent, []event{at(doUp, 0, 2, 1), at(doKill, 1, 2, 0)}, "absent"},
		{"a start killed", down, []event{dead(at(doUp, 0, 2, 0))}, "down, further start cut off, further start under way, without a parent, up"},
		{"a start of what runs killed", up, []event{dead(at(doUp, 0, 2, 0))}, "up"},
		{"a start killed, then down", absent, []event{dead(at(doUp, 0, 2, 0)), at(doDown, 3, 4, 0)}, "absent, down"},
		{"a purge killed, then a start", up, []event{dead(at(doPurge, 0, 2, 0)), at(doUp, 3, 4, 0)}, "up"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, s := range serial([]state{tc.from}, tc.events) {
				got = append(got, string(s))
			}
			if all := strings.Join(got, ", "); all != tc.want {
				t.Errorf("got %s, want %s", all, tc.want)
			}
		})
	}
}
