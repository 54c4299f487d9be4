// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

// serialBelow is the number of pieces that are not worth a goroutine.
const serialBelow = 32

// Parallelizer runs pieces of work with at most so many goroutines, and no more
// than there are processors: the work is computing.
type Parallelizer int

var _ fwk.Parallelizer = Parallelizer(0)

// Until implements fwk.Parallelizer.
func (p Parallelizer) Until(ctx context.Context, pieces int, work workqueue.DoWorkPieceFunc, operation string) {
	counted{p, nil}.Until(ctx, pieces, work, operation)
}

// ForEach calls work for 0..n-1, concurrently if n is large, and returns when
// all calls returned. work may return false to ask that no further piece be
// started; pieces from end on were not.
func (p Parallelizer) ForEach(n int, work func(i int) bool) (end int) {
	workers, chunk := p.share(n)
	if workers == 1 {
		for i := range n {
			if !work(i) {
				return i + 1
			}
		}
		return n
	}
	var next atomic.Int64
	var stop atomic.Bool
	run := func() {
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
	}
	var others sync.WaitGroup
	for range workers - 1 {
		others.Go(run)
	}
	run()
	others.Wait()
	return min(int(next.Load()), n)
}

// share tells how many goroutines work on n pieces, at least one, and how many
// pieces each takes at a time.
func (p Parallelizer) share(n int) (workers, chunk int) {
	workers = min(int(p), runtime.GOMAXPROCS(0))
	if n < serialBelow || workers <= 1 {
		return 1, n
	}
	// Small enough to balance and large enough to amortise the counter.
	chunk = int(math.Sqrt(float64(n)))/2 + 1
	return min(workers, (n+chunk-1)/chunk), chunk
}

// counted tells how many goroutines work.
type counted struct {
	Parallelizer
	metrics *metrics.Metrics
}

// Until implements fwk.Parallelizer.
func (c counted) Until(ctx context.Context, pieces int, work workqueue.DoWorkPieceFunc, operation string) {
	c.each(pieces, func(i int) bool {
		if ctx.Err() != nil {
			return false
		}
		work(i)
		return true
	}, operation)
}

func (c counted) each(n int, work func(i int) bool, operation string) (end int) {
	workers, _ := c.share(n)
	c.metrics.Running(operation, workers)
	defer c.metrics.Running(operation, -workers)
	return c.ForEach(n, work)
}

// ForEach is that of the parallelizer, counted as an operation.
func (s *Services) ForEach(n int, operation string, work func(i int) bool) (end int) {
	return counted{s.Parallel, s.Metrics}.each(n, work, operation)
}
