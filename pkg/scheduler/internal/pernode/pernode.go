// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package pernode remembers what was found of nodes, and looks again only at those
// that have changed since: a cycle changes one of thousands. Touch it when what a
// plugin asks of the pods on all nodes takes long.
package pernode

import fwk "k8s.io/kube-scheduler/framework"

// Memory has what was found of each node of a list. It is not safe for concurrent use.
type Memory[T any] struct {
	look    func(fwk.NodeInfo) T
	changed func(before, now T)
	known   []known[T]
}

type known[T any] struct {
	generation int64 // of what was looked at; no two nodes have the same, nor two states of a node
	found      T
}

// New returns a memory of what look finds, of which nothing is known yet. If it is not
// nil, changed is called with what was found of a place in the list, and is now: each may
// be the zero value, for a place that came or went.
func New[T any](look func(fwk.NodeInfo) T, changed func(before, now T)) *Memory[T] {
	if changed == nil {
		changed = func(T, T) {}
	}
	return &Memory[T]{look: look, changed: changed}
}

// Look brings the memory up to date with a list of nodes.
func (m *Memory[T]) Look(nodes []fwk.NodeInfo) {
	for i, n := range nodes {
		generation := n.GetGeneration()
		if i == len(m.known) {
			m.known = append(m.known, known[T]{})
		} else if m.known[i].generation == generation {
			continue
		}
		now := known[T]{generation, m.look(n)}
		m.changed(m.known[i].found, now.found)
		m.known[i] = now
	}
	for _, gone := range m.known[len(nodes):] {
		var nothing T
		m.changed(gone.found, nothing)
	}
	clear(m.known[len(nodes):])
	m.known = m.known[:len(nodes)]
}

// Of is what was found of the node at a place of the list.
func (m *Memory[T]) Of(i int) T { return m.known[i].found }
