// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package oom

import (
	"slices"
	"sync"
)

// remembered is how many victims are kept.
const remembered = 1000

// Victims are the containers that a process was killed of, the last thousand. The zero value has none. They are safe for concurrent use.
type Victims struct {
	mu  sync.Mutex
	ids []string // guarded by mu; the oldest first
}

// Add notes a container by the engine's id.
func (v *Victims) Add(container string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.ids) == remembered {
		v.ids = slices.Delete(v.ids, 0, 1)
	}
	v.ids = append(v.ids, container)
}

// Has says whether a process of a container was killed.
func (v *Victims) Has(container string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Contains(v.ids, container)
}
