// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"maps"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// CycleState carries plugins' results through one scheduling cycle. The filters
// of many nodes read it at once, so that reading takes no lock; a write copies
// the few entries.
type CycleState struct {
	pod     *PodInfo
	mu      sync.Mutex // serialises writers
	data    atomic.Pointer[map[fwk.StateKey]fwk.StateData]
	skip    skipped
	filters []named[fwk.FilterPlugin] // those that are not skipped, once PreFilter ran
	locals  int                       // how many of these, the first, are node-local
	sampled bool
	group   *GroupState // set while the pod is tried as one of a group
}

// skipped has the plugins left out of an extension point, set between the points.
type skipped struct {
	filter, score, preBind, parallelPreBind sets.Set[string]
}

var _ fwk.CycleState = (*CycleState)(nil)

// NewCycleState returns the empty state of a cycle for a pod.
func NewCycleState(pod *PodInfo) *CycleState {
	c := &CycleState{pod: pod}
	c.data.Store(&map[fwk.StateKey]fwk.StateData{})
	return c
}

// InfoOf returns what is derived from the pod of a cycle. A state that is not
// ours, or a cycle of another pod, costs deriving it anew.
func InfoOf(state fwk.CycleState, pod *corev1.Pod) *PodInfo {
	if c, ok := state.(*CycleState); ok && c.pod != nil && (c.pod.Pod == pod || c.pod.Pod.UID == pod.UID && pod.UID != "") {
		return c.pod
	}
	return NewPodInfo(pod)
}

// Read returns the data under a key, or fwk.ErrNotFound.
func (c *CycleState) Read(key fwk.StateKey) (fwk.StateData, error) {
	if d, ok := (*c.data.Load())[key]; ok {
		return d, nil
	}
	return nil, fwk.ErrNotFound
}

// Write stores data under a key, by convention the phase and the plugin's name.
func (c *CycleState) Write(key fwk.StateKey, d fwk.StateData) {
	c.change(func(m map[fwk.StateKey]fwk.StateData) { m[key] = d })
}

// Delete removes what is stored under a key.
func (c *CycleState) Delete(key fwk.StateKey) {
	c.change(func(m map[fwk.StateKey]fwk.StateData) { delete(m, key) })
}

func (c *CycleState) change(f func(map[fwk.StateKey]fwk.StateData)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := maps.Clone(*c.data.Load())
	f(m)
	c.data.Store(&m)
}

// Clone copies the state and its data.
func (c *CycleState) Clone() fwk.CycleState {
	if c == nil {
		return nil
	}
	out := &CycleState{pod: c.pod, skip: c.skip, filters: c.filters, locals: c.locals, sampled: c.sampled, group: c.group}
	data := *c.data.Load()
	m := make(map[fwk.StateKey]fwk.StateData, len(data))
	for k, d := range data {
		m[k] = d.Clone()
	}
	out.data.Store(&m)
	return out
}

// GetSkipFilterPlugins implements fwk.CycleState.
func (c *CycleState) GetSkipFilterPlugins() sets.Set[string] { return c.skip.filter }

// SetSkipFilterPlugins implements fwk.CycleState.
func (c *CycleState) SetSkipFilterPlugins(s sets.Set[string]) { c.skip.filter, c.filters = s, nil }

// GetSkipScorePlugins implements fwk.CycleState.
func (c *CycleState) GetSkipScorePlugins() sets.Set[string] { return c.skip.score }

// SetSkipScorePlugins implements fwk.CycleState.
func (c *CycleState) SetSkipScorePlugins(s sets.Set[string]) { c.skip.score = s }

// GetSkipPreBindPlugins implements fwk.CycleState.
func (c *CycleState) GetSkipPreBindPlugins() sets.Set[string] { return c.skip.preBind }

// SetSkipPreBindPlugins implements fwk.CycleState.
func (c *CycleState) SetSkipPreBindPlugins(s sets.Set[string]) { c.skip.preBind = s }

// GetParallelPreBindPlugins implements fwk.CycleState.
func (c *CycleState) GetParallelPreBindPlugins() sets.Set[string] { return c.skip.parallelPreBind }

// SetParallelPreBindPlugins implements fwk.CycleState.
func (c *CycleState) SetParallelPreBindPlugins(s sets.Set[string]) { c.skip.parallelPreBind = s }

// ShouldRecordPluginMetrics implements fwk.CycleState.
func (c *CycleState) ShouldRecordPluginMetrics() bool { return c.sampled }

// SetRecordPluginMetrics says whether the calls of plugins are timed in this cycle.
func (c *CycleState) SetRecordPluginMetrics(yes bool) { c.sampled = yes }

// ShouldSkipAllPostFilterPlugins implements fwk.CycleState.
func (c *CycleState) ShouldSkipAllPostFilterPlugins() bool { return false }

// IsPodGroupSchedulingCycle implements fwk.CycleState.
func (c *CycleState) IsPodGroupSchedulingCycle() bool { return c.group != nil }

// GetPodGroupSchedulingCycle implements fwk.CycleState; nil if the pod is tried alone.
func (c *CycleState) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState {
	if c.group == nil {
		return nil
	}
	return c.group
}

// GetPlacementCycleState implements fwk.CycleState; nil if the pod is tried alone. A group is placed in one way only.
func (c *CycleState) GetPlacementCycleState() fwk.PlacementCycleState {
	if c.group == nil {
		return nil
	}
	return c.group
}

// SetGroup says that the pod is tried as one of a group, nil that this is over.
func (c *CycleState) SetGroup(g *GroupState) { c.group = g }

// ReadState returns the data under a key, or the zero T if there is none of
// that type: a plugin whose PreFilter did not run finds nothing.
func ReadState[T fwk.StateData](c fwk.CycleState, key fwk.StateKey) (T, bool) {
	d, err := c.Read(key)
	if err != nil {
		var none T
		return none, false
	}
	t, ok := d.(T)
	return t, ok
}
