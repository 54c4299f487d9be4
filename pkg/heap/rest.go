// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"context"
	"runtime/metrics"
	"time"
)

const (
	// pause between two looks at the heap.
	pause = 10 * time.Second
	// worthwhile is the least that a collection should give back, in bytes.
	worthwhile = 8 << 20
)

// rest gives back to the system, until ctx ends, what a burst of work has left in the heap. By itself the runtime keeps a heap
// of twice what lives, and a server at rest hardly allocates, so that it would not collect for minutes.
func rest(ctx context.Context) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	before, least := look(), uint64(0) // the start leaves something too
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := look()
		if now.returnable(before, least) {
			giveBack()
			now = look()
			least = now.held
		}
		before = now
	}
}

// heap is a look at the heap, in bytes: what was ever allocated, and what it holds of the system's memory.
type heap struct{ allocated, held uint64 }

// returnable tells whether to collect: the heap has grown since a collection left the least, and what it has got more will
// not be needed again at once, as little was allocated since the look before.
func (h heap) returnable(before heap, least uint64) bool {
	if h.held < least+worthwhile+least/8 {
		return false
	}
	return h.allocated-before.allocated < (h.held-least)/4
}

func look() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	v := func(i int) uint64 { return samples[i].Value.Uint64() }
	return heap{allocated: v(0), held: v(1) + v(2) + v(3)}
}
