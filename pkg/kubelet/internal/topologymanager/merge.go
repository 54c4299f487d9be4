// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// hints are what a provider says, by resource: no list if it does not care, an empty one if the request cannot be met.
type hints = map[corev1.ResourceName][]topology.Hint

// merger finds the nodes that suit all providers.
type merger struct {
	policy  string
	nodes   []topology.Node
	closest bool
}

// merge returns the nodes that resources are to be taken from first (none: any), and whether the pod is admitted.
func (m merger) merge(all []hints) (near topology.Hint, admit bool) {
	lists := flatten(all)
	if m.policy == SingleNUMANode {
		lists = single(lists)
	}
	best := m.best(lists)
	if m.policy == SingleNUMANode && best.Nodes == m.every() {
		best.Nodes = 0
	}
	return best, best.Preferred || m.policy == BestEffort
}

func (m merger) every() topology.Nodes {
	var s topology.Nodes
	for _, n := range m.nodes {
		s |= topology.NodesOf(n.ID)
	}
	return s
}

// flatten makes a list for each resource of each provider.
func flatten(all []hints) [][]topology.Hint {
	var out [][]topology.Hint
	for _, of := range all {
		if len(of) == 0 {
			out = append(out, []topology.Hint{{Preferred: true}})
		}
		for _, name := range slices.Sorted(maps.Keys(of)) {
			switch list := of[name]; {
			case list == nil:
				out = append(out, []topology.Hint{{Preferred: true}})
			case len(list) == 0:
				out = append(out, []topology.Hint{{Preferred: false}})
			default:
				out = append(out, list)
			}
		}
	}
	return out
}

// single keeps the preferred hints of one node, and those of any.
func single(lists [][]topology.Hint) [][]topology.Hint {
	out := make([][]topology.Hint, len(lists))
	for i, list := range lists {
		for _, h := range list {
			if h.Preferred && h.Nodes.Count() <= 1 {
				out[i] = append(out[i], h)
			}
		}
	}
	return out
}

// best takes one hint of each list in all ways, and returns what suits best: what all prefer, else what comes closest to the number
// of nodes that the most demanding resource needs.
func (m merger) best(lists [][]topology.Hint) topology.Hint {
	enough := 0
	for _, list := range lists {
		least := 0
		for _, h := range list {
			if n := h.Nodes.Count(); n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
		enough = max(enough, least)
	}
	var best *topology.Hint
	for taken := range product(lists) {
		if h := m.join(taken); h.Nodes != 0 && (best == nil || m.better(h, *best, enough)) {
			best = &h
		}
	}
	if best == nil {
		return topology.Hint{Nodes: m.every()}
	}
	return *best
}

// join is what several hints have in common. It is preferred if all are, and name the same nodes.
func (m merger) join(taken []topology.Hint) topology.Hint {
	out, first := topology.Hint{Nodes: m.every(), Preferred: true}, topology.Nodes(0)
	for _, h := range taken {
		out.Preferred = out.Preferred && h.Preferred
		if h.Nodes == 0 {
			continue
		}
		if first == 0 {
			first = h.Nodes
		}
		out.Preferred = out.Preferred && h.Nodes == first
		out.Nodes &= h.Nodes
	}
	return out
}

// better says whether a is to be taken in place of b.
func (m merger) better(a, b topology.Hint, enough int) bool {
	na, nb := a.Nodes.Count(), b.Nodes.Count()
	switch {
	case a.Preferred != b.Preferred:
		return a.Preferred
	case a.Preferred, nb > enough, na == nb:
		return m.fitter(a.Nodes, b.Nodes)
	case nb == enough, na > enough:
		return false
	}
	return na > nb
}

// fitter compares two sets of nodes: fewer nodes are better, then, if that is wanted, those closer to each other.
func (m merger) fitter(a, b topology.Nodes) bool {
	if a == b {
		return false
	}
	if m.closest && m.policy != SingleNUMANode && a.Count() == b.Count() {
		if da, db := m.distance(a), m.distance(b); da != db {
			return da < db
		}
		return a < b
	}
	return a.Narrower(b)
}

// distance is the average of those between any two nodes of a set, a node and itself included.
func (m merger) distance(s topology.Nodes) float64 {
	sum, count := 0.0, 0
	for _, from := range m.nodes {
		for i, to := range m.nodes {
			if s.Has(from.ID) && s.Has(to.ID) && i < len(from.Distances) {
				sum += float64(from.Distances[i])
				count++
			}
		}
	}
	return sum / float64(max(count, 1))
}

// product yields all ways to take one of each list. What is yielded is not to be kept.
func product(lists [][]topology.Hint) iter.Seq[[]topology.Hint] {
	return func(yield func([]topology.Hint) bool) {
		taken := make([]topology.Hint, 0, len(lists))
		var next func() bool
		next = func() bool {
			if len(taken) == len(lists) {
				return yield(taken)
			}
			for _, h := range lists[len(taken)] {
				taken = append(taken, h)
				if !next() {
					return false
				}
				taken = taken[:len(taken)-1]
			}
			return true
		}
		next()
	}
}
