// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/lru"

	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/dra"
)

const (
	// maxKinds is for how many kinds of claims it is remembered what they would get on nodes, and maxOutcomes for how many of both:
	// each takes half a kilobyte.
	maxKinds, maxOutcomes = 64, 1 << 16
	// maxPools is how many pools a node may have for which that is remembered.
	maxPools = 64
)

// memory is what claims that ask for the same would get on nodes, as long as nothing has changed from which that follows: to find
// devices takes much longer than all else, and of many nodes a cycle changes one.
type memory struct {
	manager  *dra.Manager
	claims   *dra.Claims
	kinds    *lru.Cache // of *kind by what claims ask for
	outcomes *lru.Cache // of *outcome by question

	mu     sync.Mutex
	index  *index // guarded by mu, like cycles
	cycles int64
}

// index is in which pools nodes have devices.
type index struct {
	changes int64 // of slices
	byNode  map[string][]dra.Pool
	shared  []dra.Pool // that any node may have devices in
}

// kind are claims that ask for the same.
type kind struct {
	first int64 // the cycle that met it; there may be no second one
}

// question is what claims of a kind would get on a node.
type question struct {
	kind *kind
	node string
}

// outcome is what claims would get on a node.
type outcome struct {
	from    origin
	results []resourcev1.AllocationResult
}

// origin is all from which an outcome follows.
type origin struct {
	node            weak.Pointer[corev1.Node] // is not kept for the sake of this
	slices, classes int64
	taken           []int64 // generations of the node's pools
}

func (o *origin) equal(p *origin) bool {
	return o.node == p.node && o.slices == p.slices && o.classes == p.classes && slices.Equal(o.taken, p.taken)
}

func newMemory(manager *dra.Manager, claims *dra.Claims) *memory {
	return &memory{manager: manager, claims: claims, kinds: lru.New(maxKinds), outcomes: lru.New(maxOutcomes), index: &index{changes: -1}}
}

// search is a structured.Allocator of one cycle that remembers.
type search struct {
	structured.Allocator
	*memory
	index   *index
	cycle   int64
	classes int64
	taken   int64 // generation of the devices that are taken, for the allocator
}

// begin prepares a search, of which the caller makes the allocator by the devices that are taken and the slices.
func (m *memory) begin() (*search, *structured.AllocatedState, []*resourcev1.ResourceSlice, error) {
	// Counted before they are listed: what comes in between is looked at twice.
	changes, classes := m.manager.Slices().Changes(), m.manager.Classes().Changes()
	listed, err := m.manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, nil, nil, err
	}
	state, generation := m.claims.Gather()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.index.changes != changes {
		m.index = newIndex(changes, listed)
	}
	m.cycles++
	return &search{memory: m, index: m.index, cycle: m.cycles, classes: classes, taken: generation}, state, listed, nil
}

func newIndex(changes int64, all []*resourcev1.ResourceSlice) *index {
	x := &index{changes: changes, byNode: map[string][]dra.Pool{}}
	for _, s := range all {
		pool := dra.Pool{Driver: s.Spec.Driver, Name: s.Spec.Pool.Name}
		if s.Spec.NodeName == nil {
			x.shared = append(x.shared, pool)
			continue
		}
		x.byNode[*s.Spec.NodeName] = append(x.byNode[*s.Spec.NodeName], pool)
	}
	return x
}

// Allocate implements structured.Allocator. Nobody may change what it returns.
func (s *search) Allocate(ctx context.Context, node *corev1.Node, claims []*resourcev1.ResourceClaim) ([]resourcev1.AllocationResult, error) {
	from, ok := s.origin(node)
	k := s.kind(claims)
	if k == nil || !ok {
		return s.Allocator.Allocate(ctx, node, claims)
	}
	q := question{k, node.Name}
	if found, ok := s.outcomes.Get(q); ok {
		if known := found.(*outcome); known.from.equal(&from) {
			return known.results, nil
		}
	}
	results, err := s.Allocator.Allocate(ctx, node, claims)
	if err == nil && !shares(results) {
		s.outcomes.Add(q, &outcome{from, results})
	}
	return results, err
}

// origin is what an outcome follows from now; false if more is taken, or less, than the allocator knows, or if it is too much.
func (s *search) origin(node *corev1.Node) (origin, bool) {
	own := s.index.byNode[node.Name]
	if len(own)+len(s.index.shared) > maxPools {
		return origin{}, false
	}
	o := origin{node: weak.Make(node), slices: s.index.changes, classes: s.classes, taken: make([]int64, 0, len(own)+len(s.index.shared))}
	o.taken = s.claims.Generations(s.claims.Generations(o.taken, own), s.index.shared)
	return o, !slices.ContainsFunc(o.taken, func(g int64) bool { return g > s.taken })
}

// kind is that of some claims; nil if nothing is to be remembered of it.
func (s *search) kind(claims []*resourcev1.ResourceClaim) *kind {
	var asks []byte
	for _, c := range claims {
		begin := len(asks)
		var ok bool
		if asks, ok = framework.AppendMessage(asks, &c.Spec); !ok {
			return nil
		}
		asks = binary.BigEndian.AppendUint32(asks, uint32(len(asks)-begin))
	}
	found, ok := s.kinds.Get(string(asks))
	if !ok {
		s.kinds.Add(string(asks), &kind{first: s.cycle})
		return nil
	}
	if k := found.(*kind); k.first != s.cycle {
		return k
	}
	return nil
}

// shares tells whether a device was divided: each share has an identity, which no other may have.
func shares(results []resourcev1.AllocationResult) bool {
	return slices.ContainsFunc(results, func(r resourcev1.AllocationResult) bool {
		return slices.ContainsFunc(r.Devices.Results, func(d resourcev1.DeviceRequestAllocationResult) bool { return d.ShareID != nil })
	})
}
