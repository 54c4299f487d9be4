// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import "container/heap"

// pods is a heap of queued pods that finds and removes by position.
type pods struct {
	items []*Pod
	less  func(a, b *Pod) bool
}

func (h *pods) Len() int           { return len(h.items) }
func (h *pods) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }
func (h *pods) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].index, h.items[j].index = i, j
}

// Push and Pop are for container/heap only.
func (h *pods) Push(x any) {
	p := x.(*Pod)
	p.index = len(h.items)
	h.items = append(h.items, p)
}

func (h *pods) Pop() any {
	last := len(h.items) - 1
	p := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	return p
}

func (h *pods) add(p *Pod)    { heap.Push(h, p) }
func (h *pods) remove(p *Pod) { heap.Remove(h, p.index) }
func (h *pods) fix(p *Pod)    { heap.Fix(h, p.index) }
func (h *pods) peek() *Pod {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}
