// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package ranges

import (
	"context"
	"maps"
)

// Leaks remembers, from one repair to the next, for how many rounds an offset has been taken without being in use.
type Leaks map[uint64]int

// graceRounds is how long an unused offset is left alone: whoever took it may be about to store the object.
const graceRounds = 3

// Repair makes the stored set agree with what is in use: it takes what objects hold and frees, after some rounds, what
// a server took and did not live to use. It tells the offsets that it took and freed.
func (r *Range) Repair(ctx context.Context, leaks Leaks) (took, freed Set, err error) {
	var next Leaks
	err = r.update(ctx, false, func(s Set) (Set, error) {
		// Reading the objects after the set, and writing only if the set is still the same, is what makes this safe:
		// whatever is taken meanwhile makes the write conflict and this function run again.
		used, err := r.Used(ctx)
		if err != nil {
			return nil, err
		}
		var out Set
		out, took, freed, next = reconcile(s, used, leaks)
		return out, nil
	})
	if err == nil {
		clear(leaks)
		maps.Copy(leaks, next)
	}
	return took, freed, err
}

// reconcile decides what to keep.
func reconcile(stored, used Set, leaks Leaks) (out, took, freed Set, next Leaks) {
	next = Leaks{}
	out = used
	for _, o := range used {
		if !stored.Has(o) {
			took = append(took, o)
		}
	}
	for _, o := range stored {
		switch {
		case used.Has(o):
		case leaks[o]+1 >= graceRounds:
			freed = append(freed, o)
		default:
			next[o] = leaks[o] + 1
			out = out.with(o)
		}
	}
	return out, took, freed, next
}
