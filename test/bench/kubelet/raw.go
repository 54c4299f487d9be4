// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"minik8s.io/minik8s/test/bench/alone"
)

// raw makes copies of a pod by Docker alone.
type raw struct {
	*alone.Copies
	engine *alone.Engine
	// at is how many are made at a time: whatever is fastest here.
	at int
}

// newRaw returns a raw that copies a pod of the node, which stays, and finds out how many at a time are made fastest.
func newRaw(ctx context.Context, b *bench, n *node) (*raw, error) {
	const original = "original"
	if err := n.starts(ctx, original, 1); err != nil {
		return nil, err
	}
	copies, err := b.engine.Copies(ctx, original+"-0")
	if err != nil {
		return nil, err
	}
	r := &raw{Copies: copies, engine: b.engine}
	fastest := map[int]alone.Cost{}
	for _, at := range []int{1, 2, 4, 8, 16} { // the first warms up
		pods, c, err := r.starts(ctx, at, b.batch)
		if _, err := r.stops(ctx, at, pods); err != nil {
			return nil, err
		}
		if err != nil {
			return nil, err
		}
		if fastest[at] = c; r.at == 0 || c.Took < fastest[r.at].Took {
			r.at = at
		}
	}
	fmt.Fprintf(os.Stderr, "Docker alone makes %d pods fastest %d at a time: %v\n", b.batch, r.at, fastest)
	return r, nil
}

// starts makes copies, so many at a time.
func (r *raw) starts(ctx context.Context, at, count int) ([]alone.Pod, alone.Cost, error) {
	pods := make([]alone.Pod, count)
	c, err := r.engine.CostOf(func() error {
		var all errgroup.Group
		all.SetLimit(at)
		for i := range pods {
			all.Go(func() error { return r.Start(ctx, &pods[i]) })
		}
		return all.Wait()
	})
	return pods, c, err
}

// stops kills and removes copies, so many at a time.
func (r *raw) stops(ctx context.Context, at int, pods []alone.Pod) (alone.Cost, error) {
	return r.engine.CostOf(func() error {
		var all errgroup.Group
		all.SetLimit(at)
		for _, p := range pods {
			all.Go(func() error { return r.Remove(ctx, p) })
		}
		return all.Wait()
	})
}
