// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"math"
	"sync"
	"sync/atomic"
)

const (
	parallelism = 16
	// serialBelow is the number of pieces that are not worth a goroutine.
	serialBelow = 32
)

// ForEach calls work for 0..n-1, concurrently if n is large, and returns when
// all calls returned. work may return false to ask that no further piece be
// started.
func ForEach(n int, work func(i int) bool) {
	if n < serialBelow {
		for i := range n {
			if !work(i) {
				return
			}
		}
		return
	}
	// Chunks are small enough to balance and large enough to amortise the counter.
	chunk := int(math.Sqrt(float64(n)))/2 + 1
	var next atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range min(parallelism, (n+chunk-1)/chunk) {
		wg.Go(func() {
			for !stop.Load() {
				start := int(next.Add(int64(chunk))) - chunk
				if start >= n {
					return
				}
				for i := start; i < min(start+chunk, n); i++ {
					if stop.Load() {
						return
					}
					if !work(i) {
						stop.Store(true)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
