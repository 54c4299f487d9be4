// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

	"minik8s.io/minik8s/pkg/kubelet/internal/topology"
)

// choose takes n of the available CPUs so that they are close together, as upstream's policy: first whole nodes and sockets, then
// whole cores, then what is left, each where the fewest are free.
func choose(m *topology.Machine, available cpuset.CPUSet, n int, o Options) (cpuset.CPUSet, error) {
	if o.DistributeAcrossNUMA {
		group := 1
		if o.FullPhysicalCPUsOnly {
			group = m.Per(topology.Core)
		}
		if n%group == 0 {
			return distribute(m, available, n, group, o)
		}
		o.PreferAlignByCache = false
	}
	return pack(m, available, n, o)
}

// taker takes CPUs one after the other.
type taker struct {
	machine *topology.Machine
	free    cpuset.CPUSet
	taken   cpuset.CPUSet
	need    int
	// nodes and sockets are the levels down to that of the nodes and to that of the sockets, whichever is the upper.
	nodes, sockets []topology.Level
}

func enough(available cpuset.CPUSet, n int) error {
	if n > available.Size() {
		return fmt.Errorf("not enough cpus available to satisfy request: requested=%d, available=%d", n, available.Size())
	}
	return nil
}

func pack(m *topology.Machine, available cpuset.CPUSet, n int, o Options) (cpuset.CPUSet, error) {
	if err := enough(available, n); err != nil {
		return cpuset.New(), err
	}
	t := &taker{machine: m, free: available, taken: cpuset.New(), need: n}
	upper, lower := []topology.Level{topology.NUMA}, []topology.Level{topology.NUMA, topology.Socket}
	t.nodes, t.sockets = upper, lower
	if len(m.IDs(topology.Socket, m.Set())) < len(m.IDs(topology.NUMA, m.Set())) {
		upper, lower = []topology.Level{topology.Socket}, []topology.Level{topology.Socket, topology.NUMA}
		t.nodes, t.sockets = lower, upper
	}
	t.takeWhole(upper)
	t.takeWhole(lower)
	if o.PreferAlignByCache {
		t.takeCaches()
	}
	if !o.DistributeAcrossCores {
		t.takeWhole(append(slices.Clone(lower), topology.Core))
	}
	t.takeSingle(lower, o.DistributeAcrossCores)
	if t.need > 0 {
		return cpuset.New(), errors.New("failed to allocate cpus")
	}
	return t.taken, nil
}

func (t *taker) take(cpus cpuset.CPUSet) {
	t.taken, t.free = t.taken.Union(cpus), t.free.Difference(cpus)
	t.need -= cpus.Size()
}

// freeIn are the CPUs of a core, cache, socket or node that can be taken.
func (t *taker) freeIn(level topology.Level, id int) cpuset.CPUSet {
	return t.free.Intersection(t.machine.In(level, id))
}

// order lists the parts of the last of the levels that have free CPUs. Those with fewer come first, within the part of the level
// above that they are in.
func (t *taker) order(levels []topology.Level) []int {
	last := levels[len(levels)-1]
	sorted := func(cpus cpuset.CPUSet) []int {
		ids := t.machine.IDs(last, cpus)
		slices.SortStableFunc(ids, func(a, b int) int { return cmp.Compare(t.freeIn(last, a).Size(), t.freeIn(last, b).Size()) })
		return ids
	}
	if len(levels) == 1 {
		return sorted(t.free)
	}
	var out []int
	above := levels[:len(levels)-1]
	for _, id := range t.order(above) {
		out = append(out, sorted(t.freeIn(above[len(above)-1], id))...)
	}
	return out
}

// takeWhole takes the parts of the last of the levels that are all free, as long as all of one is needed.
func (t *taker) takeWhole(levels []topology.Level) {
	last := levels[len(levels)-1]
	for _, id := range t.order(levels) {
		if all := t.machine.In(last, id); t.need >= all.Size() && all.IsSubsetOf(t.free) {
			t.take(all)
		}
	}
}

// takeCaches takes CPUs that share caches: all of a cache while so many are needed, then what is still needed from one that has it.
func (t *taker) takeCaches() {
	levels := append(slices.Clone(t.nodes), topology.Cache)
	for _, id := range t.order(levels) {
		if t.need >= t.machine.Per(topology.Cache) {
			t.takeWhole(levels)
		}
		if t.need < 1 {
			return
		}
		if part := t.partOf(id); part.Size() == t.need {
			t.take(part)
		}
	}
}

// partOf are the CPUs of the lowest cores of a cache that would do, if there are enough.
func (t *taker) partOf(cache int) cpuset.CPUSet {
	threads := max(1, t.machine.Per(topology.Core))
	cores := t.machine.IDs(topology.Core, t.freeIn(topology.Cache, cache))
	cores = cores[:min(len(cores), (t.need+threads-1)/threads)]
	cpus := t.free.Intersection(t.machine.In(topology.Core, cores...)).List()
	if t.need%2 != 0 && threads > 1 && len(cpus) > t.need {
		cpus = cpus[:len(cpus)-1] // one thread of the last core
	}
	return cpuset.New(cpus...)
}

// takeSingle takes single CPUs: those of a core one after the other, or, if spread, in the order of their ids, which the kernel
// gives to one of each core first.
func (t *taker) takeSingle(levels []topology.Level, spread bool) {
	last := topology.Core
	if spread {
		levels, last = t.sockets, topology.Socket
	} else {
		levels = append(slices.Clone(levels), topology.Core)
	}
	for _, id := range t.order(levels) {
		for _, cpu := range t.freeIn(last, id).List() {
			if t.need < 1 {
				return
			}
			t.take(cpuset.New(cpu))
		}
	}
}
