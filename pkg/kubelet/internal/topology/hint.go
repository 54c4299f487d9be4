// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import "iter"

// Hint says that a request can be met by what is close to some nodes.
type Hint struct {
	// Nodes are all whose part is needed; none: any will do.
	Nodes Nodes
	// Preferred: no fewer nodes could meet the request even if nothing were in use.
	Preferred bool
}

// Hints are for one request the sets of nodes that can meet it. could says whether a set had enough if nothing were in use, can
// whether it has. They are upstream's rules for CPUs and devices.
func Hints(nodes []int, could, can func(Nodes) bool) []Hint {
	least := len(nodes)
	hints := []Hint{} // not nil: that none is possible is something else than that none is needed
	for s := range Subsets(nodes) {
		if s.Count() < least && could(s) {
			least = s.Count()
		}
		if can(s) {
			hints = append(hints, Hint{Nodes: s})
		}
	}
	for i := range hints {
		hints[i].Preferred = hints[i].Nodes.Count() == least
	}
	return hints
}

// Subsets yields all sets of some of the nodes, those with fewer first.
func Subsets(nodes []int) iter.Seq[Nodes] {
	return func(yield func(Nodes) bool) {
		for n := 1; n <= len(nodes); n++ {
			for combo := range Combinations(nodes, n) {
				if !yield(NodesOf(combo...)) {
					return
				}
			}
		}
	}
}

// Combinations yields the ways to take n of a list, each in the order of the list. What is yielded is not to be changed, nor kept.
func Combinations(list []int, n int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		if n < 1 {
			return
		}
		taken := make([]int, 0, n)
		var next func(from int) bool
		next = func(from int) bool {
			if len(taken) == n {
				return yield(taken)
			}
			for i := from; i <= len(list)-(n-len(taken)); i++ {
				taken = append(taken, list[i])
				if !next(i + 1) {
					return false
				}
				taken = taken[:len(taken)-1]
			}
			return true
		}
		next(0)
	}
}
