// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"
)

// NodeLocal is a plugin whose Filter and Score look at nothing but a node, what AppendSignature says of a pod, and settings that
// never change; nor does PreFilter, when it skips. What it finds of a node holds for all pods with the same signature until the node
// changes, and is remembered.
type NodeLocal interface {
	fwk.Plugin
	// AppendSignature appends what Filter and Score look at of a pod; false if with this one they look at something else, too.
	AppendSignature(to []byte, pod *PodInfo) (signature []byte, ok bool)
}

// maxSignatures is of how many kinds of pods it is remembered what was found of nodes: those of the workloads that grow at a time.
// Each takes some 80 bytes for a node.
const maxSignatures = 8

// Memory has what was found of nodes for the kinds of pods that came last. It belongs to the goroutine that runs the cycles.
type Memory struct {
	byKind   *lru.Cache // of *Findings
	snapshot *Snapshot  // of this cycle
	// Of the last cycle, to be used again.
	signature []byte
	places    []int
	scores    fwk.NodeScoreList
}

// NewMemory returns an empty one.
func NewMemory() *Memory { return &Memory{byKind: lru.New(maxSignatures)} }

// Recall returns what is known of nodes for a pod. It is nil, and nothing can be remembered, for the first pod of its kind: there
// may be no second one, and nodes are many.
func (m *Memory) Recall(p *Profile, pod *PodInfo) *Findings {
	if len(p.local) == 0 {
		return nil
	}
	signature := m.signature[:0]
	for _, x := range p.local {
		part, ok := x.AppendSignature(signature, pod)
		if !ok {
			return nil
		}
		// With its length behind it, where a part begins is not a matter of what is in it.
		signature = binary.BigEndian.AppendUint32(part, uint32(len(part)-len(signature)))
	}
	m.signature = signature
	k := kind{p, string(signature)}
	found, known := m.byKind.Get(k)
	if !known {
		m.byKind.Add(k, &Findings{slots: p.slots, memory: m})
		return nil
	}
	return found.(*Findings)
}

// kind are the pods of a profile that have the same signature.
type kind struct {
	profile   *Profile
	signature string
}

// Findings is what node-local plugins have found of nodes for one kind of pods. Different places are safe for concurrent use.
type Findings struct {
	nodes  []finding
	scores []int64 // of each node as many as there are slots
	slots  int
	memory *Memory
}

type finding struct {
	generation int64 // of the node that was looked at; no two have the same, nor two states of one
	name       string
	filtered   bool
	rejected   *fwk.Status // by the first filters, nil: by none of them
}

// unknown is no score.
const unknown = math.MinInt64

// Begin is for a cycle with a snapshot, no node of which is kept yet.
func (f *Findings) Begin(s *Snapshot) {
	if f == nil {
		return
	}
	f.memory.places, f.memory.snapshot = f.memory.places[:0], s
	if nodes := len(s.nodes); len(f.nodes) != nodes {
		f.nodes, f.scores = make([]finding, nodes), make([]int64, nodes*f.slots)
	}
}

// Keep says at which place of the snapshot the next of the nodes is that are to be scored.
func (f *Findings) Keep(place int) {
	if f != nil {
		f.memory.places = append(f.memory.places, place)
	}
}

// of is what is known of the node at a place, and where scores of it are kept.
func (f *Findings) of(place int) (found *finding, scores []int64) {
	found, scores = &f.nodes[place], f.scores[place*f.slots:][:f.slots]
	if g := f.memory.snapshot.generations[place]; found.generation != g {
		*found = finding{generation: g, name: f.memory.snapshot.nodes[place].Node().Name}
		for i := range scores {
			scores[i] = unknown
		}
	}
	return found, scores
}

// score is the name of the n-th of the nodes that were kept, and where scores of it are, nil if f is.
func (f *Findings) score(n int, node fwk.NodeInfo) (name string, scores []int64) {
	if f == nil {
		return node.Node().Name, nil
	}
	found, scores := f.of(f.memory.places[n])
	return found.name, scores
}

// list is memory for so many scores.
func (f *Findings) list(n int) fwk.NodeScoreList {
	if f == nil {
		return make(fwk.NodeScoreList, n)
	}
	f.memory.scores = slices.Grow(f.memory.scores[:0], n)[:n]
	return f.memory.scores
}

// localize finds the plugins that are node-local: the filters up to the first that is not, so that it is still the first in order
// which tells why a node is none, and all that score.
func (p *Profile) localize() {
	seen := map[string]bool{}
	add := func(x fwk.Plugin) bool {
		local, ok := x.(NodeLocal)
		if ok && !seen[x.Name()] {
			seen[x.Name()] = true
			p.local = append(p.local, local)
		}
		return ok
	}
	for i := range p.filter {
		if !add(p.filter[i].plugin) {
			break
		}
		p.filter[i].local = true
	}
	for i := range p.score {
		if x := &p.score[i]; add(x.plugin) {
			x.local, x.slot = true, p.slots
			p.slots++
		}
	}
}

// FilterAt is RunFilterPlugins for the node at a place of the snapshot, by what is known of it. PreFilter has to have run.
func (p *Profile) FilterAt(ctx context.Context, state *CycleState, pod *corev1.Pod, known *Findings, place int) *fwk.Status {
	found, _ := known.of(place)
	if !found.filtered {
		found.rejected = runFilters(ctx, state, pod, known.memory.snapshot.nodes[place], state.filters[:state.locals], nil)
		found.filtered = found.rejected.IsSuccess() || found.rejected.IsRejected()
	}
	if !found.rejected.IsSuccess() {
		return found.rejected
	}
	return runFilters(ctx, state, pod, known.memory.snapshot.nodes[place], state.filters[state.locals:], nil)
}

// score asks a plugin for the score of a node, unless it is among those that are known; these are nil if nothing may be remembered.
func (x *pluginScores) score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo, known []int64, sampled bool) (int64, *fwk.Status) {
	remembers := x.local && known != nil
	if remembers && known[x.slot] != unknown {
		return known[x.slot], nil
	}
	x.calls.ran()
	start := x.calls.began(sampled)
	v, s := x.plugin.Score(ctx, state, pod, node)
	x.calls.ended(main, start, s)
	if remembers && s.IsSuccess() {
		known[x.slot] = v
	}
	return v, s
}

// message is a generated type that has a form in bytes.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// AppendMessage appends a part of a pod to a signature.
func AppendMessage(to []byte, m message) (signature []byte, ok bool) {
	size := m.Size()
	to = binary.BigEndian.AppendUint32(to, uint32(size))
	to = slices.Grow(to, size)[:len(to)+size]
	_, err := m.MarshalToSizedBuffer(to[len(to)-size:])
	return to, err == nil
}

// AppendTolerations appends what a pod tolerates.
func AppendTolerations(to []byte, pod *PodInfo) (signature []byte, ok bool) {
	ok = true
	for i := range pod.Pod.Spec.Tolerations {
		if to, ok = AppendMessage(to, &pod.Pod.Spec.Tolerations[i]); !ok {
			break
		}
	}
	return to, ok
}
