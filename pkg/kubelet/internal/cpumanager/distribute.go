// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// share is how CPUs are taken of several nodes.
type share struct {
	nodes []int
	// each is how many are taken of each of them; rest are those of which the remaining ones are taken, a group at a time.
	each int
	rest []int
	// balance is how unevenly the nodes of the machine are left, 0 at best.
	balance float64
	// near: the nodes are in one socket.
	near bool
}

// distribute takes as many CPUs of each of the fewest nodes that have n together, in groups that are not divided (KEP-2902).
func distribute(m *topology.Machine, available cpuset.CPUSet, n, group int, o Options) (cpuset.CPUSet, error) {
	if n < 1 {
		return cpuset.New(), nil
	}
	if err := enough(available, n); err != nil {
		return cpuset.New(), err
	}
	o.PreferAlignByCache = false
	free := map[int]int{}
	for _, id := range m.IDs(topology.NUMA, available) {
		free[id] = available.Intersection(m.In(topology.NUMA, id)).Size()
	}
	least, most := nodesNeeded(m, len(free), n, group)
	for k := least; k <= most; k++ {
		if best := bestShare(m, free, k, n, group, o.AlignBySocket); best != nil {
			return takeShare(m, available, *best, n, group, o)
		}
	}
	return pack(m, available, n, o)
}

func ceil(a, b int) int { return (a + b - 1) / b }

// nodesNeeded are the fewest nodes that may be enough, and the most that it makes sense to divide n over.
func nodesNeeded(m *topology.Machine, withFree, n, group int) (least, most int) {
	groups := ceil(len(m.CPUs), group)
	perNode := ceil(groups, len(m.IDs(topology.NUMA, m.Set())))
	needed := ceil(n, group)
	return ceil(needed, perNode), min(needed, withFree)
}

// bestShare looks through all ways to take k nodes. It is nil if none is possible.
func bestShare(m *topology.Machine, free map[int]int, k, n, group int, bySocket bool) *share {
	var best *share
	for combo := range topology.Combinations(nodeOrder(m, free), k) {
		s, ok := shareOf(free, slices.Clone(combo), n, group, bySocket)
		if !ok {
			continue
		}
		s.near = len(m.IDs(topology.Socket, m.In(topology.NUMA, combo...))) <= 1
		better := best == nil || s.balance < best.balance
		if best != nil && bySocket && s.near != best.near {
			better = s.near
		}
		if better {
			best = &s
		}
		if best.balance == 0 && (!bySocket || best.near) {
			break
		}
	}
	return best
}

// nodeOrder is that in which nodes are looked at: those with the fewest free CPUs first, within sockets if these are larger.
func nodeOrder(m *topology.Machine, free map[int]int) []int {
	ids := slices.Sorted(maps.Keys(free))
	inSocket := func(id int) int {
		sum := 0
		for _, socket := range m.IDs(topology.Socket, m.In(topology.NUMA, id)) {
			for _, node := range m.IDs(topology.NUMA, m.In(topology.Socket, socket)) {
				sum += free[node]
			}
		}
		return sum
	}
	within := len(m.IDs(topology.Socket, m.Set())) < len(m.IDs(topology.NUMA, m.Set()))
	socket := func(id int) int { return m.IDs(topology.Socket, m.In(topology.NUMA, id))[0] }
	slices.SortStableFunc(ids, func(a, b int) int {
		if within && socket(a) != socket(b) {
			if d := inSocket(a) - inSocket(b); d != 0 {
				return d
			}
			return socket(a) - socket(b)
		}
		return free[a] - free[b]
	})
	return ids
}

// shareOf divides n over some nodes; ok is false if they have not enough, or cannot be left evenly.
func shareOf(free map[int]int, nodes []int, n, group int, bySocket bool) (s share, ok bool) {
	groups := 0
	for _, id := range nodes {
		groups += free[id] / group
	}
	if groups*group < n {
		return s, false
	}
	s = share{nodes: nodes, each: n / len(nodes) / group * group}
	for _, id := range nodes {
		if limit := free[id] / group * group; s.each > limit {
			if !bySocket {
				return s, false
			}
			s.each = limit
		}
	}
	left := maps.Clone(free)
	var roomy []int
	for _, id := range nodes {
		if left[id] -= s.each; left[id] >= group {
			roomy = append(roomy, id)
		}
	}
	rest := n - s.each*len(nodes)
	if rest == 0 {
		s.balance = deviation(left)
		return s, true
	}
	s.balance = math.MaxFloat64
	for k := len(roomy); k >= 1; k-- {
		for subset := range topology.Combinations(roomy, k) {
			after, enough := without(left, subset, rest, group)
			if b := deviation(after); enough && b < s.balance {
				s.balance, s.rest = b, slices.Clone(subset)
			}
		}
	}
	return s, s.rest != nil
}

// without takes n from some nodes, a group of each in turn.
func without(free map[int]int, nodes []int, n, group int) (left map[int]int, enough bool) {
	left = maps.Clone(free)
	for n > 0 {
		before := n
		for _, id := range nodes {
			if n > 0 && left[id] >= group {
				left[id] -= group
				n -= group
			}
		}
		if n == before {
			return left, false
		}
	}
	return left, true
}

// deviation is the standard deviation, to three places, so that what differs by rounding only does not differ.
func deviation(values map[int]int) float64 {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	mean, squares := round(sum/float64(len(values))), 0.0
	for _, v := range values {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	return round(math.Sqrt(squares / float64(len(values))))
}

func takeShare(m *topology.Machine, available cpuset.CPUSet, s share, n, group int, o Options) (cpuset.CPUSet, error) {
	taken := cpuset.New()
	take := func(node, n int) error {
		cpus, err := pack(m, available.Intersection(m.In(topology.NUMA, node)).Difference(taken), n, o)
		taken = taken.Union(cpus)
		return err
	}
	for _, id := range s.nodes {
		if err := take(id, s.each); err != nil {
			return cpuset.New(), err
		}
	}
	for taken.Size() < n {
		before := taken.Size()
		for _, id := range s.rest {
			if room := available.Intersection(m.In(topology.NUMA, id)).Difference(taken).Size(); taken.Size() < n && room >= group {
				if err := take(id, group); err != nil {
					return cpuset.New(), err
				}
			}
		}
		if taken.Size() == before {
			return cpuset.New(), fmt.Errorf("accounting error, not enough CPUs allocated, remaining: %d", n-taken.Size())
		}
	}
	return taken, nil
}
