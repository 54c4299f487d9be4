// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import "k8s.io/apimachinery/pkg/util/sets"

// StateData is what a plugin keeps in a CycleState. Clone must be deep enough
// that PodDeltaPlugin changes on the copy do not show in the original; data that
// is never changed may return itself.
type StateData interface {
	Clone() StateData
}

// CycleState carries plugins' results through one scheduling cycle. It is
// written only by the serial extension points (PreFilter, PreScore, Reserve and
// PodDelta on a clone), so that concurrent filters read it without a lock.
type CycleState struct {
	data       map[string]StateData
	skipFilter sets.Set[string]
	skipScore  sets.Set[string]
}

// NewCycleState returns an empty state.
func NewCycleState() *CycleState {
	return &CycleState{data: map[string]StateData{}, skipFilter: sets.New[string](), skipScore: sets.New[string]()}
}

// Write stores data under a key, by convention the plugin's name and phase.
func (c *CycleState) Write(key string, d StateData) { c.data[key] = d }

// Clone copies the state and its data.
func (c *CycleState) Clone() *CycleState {
	out := &CycleState{data: make(map[string]StateData, len(c.data)), skipFilter: c.skipFilter, skipScore: c.skipScore}
	for k, d := range c.data {
		out.data[k] = d.Clone()
	}
	return out
}

// ReadState returns the data under a key, or the zero T if there is none of
// that type: a plugin whose PreFilter did not run finds nothing.
func ReadState[T StateData](c *CycleState, key string) (T, bool) {
	d, ok := c.data[key].(T)
	return d, ok
}
