// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"minik8s.io/minik8s/test/bench/alone"
	"minik8s.io/minik8s/test/bench/figure"
)

// sides are what is compared: Docker alone, and pods.
var sides = figure.Sides{figure.Upstream, figure.Ours}

// note notes a duration in seconds beside that of the other side.
func (b *bench) note(side figure.Side, name string, atMost float64, d time.Duration) {
	b.table.Add(side, figure.Figure{Name: name, Unit: "s", AtMost: atMost}, d.Seconds())
}

// startAndStop measures the start and the end of some pods at once.
func (b *bench) startAndStop(ctx context.Context, side figure.Side, n *node, r *raw, name string, count int) (
	start, stop alone.Cost, err error) {
	if side == figure.Upstream {
		at := min(r.at, count)
		pods, start, err := r.starts(ctx, at, count)
		if err != nil {
			_, _ = r.stops(ctx, at, pods) // what is there of them
			return start, stop, err
		}
		stop, err := r.stops(ctx, at, pods)
		return start, stop, err
	}
	if start, err = b.engine.CostOf(func() error { return n.starts(ctx, name, count) }); err != nil {
		return start, stop, err
	}
	stop, err = b.engine.CostOf(func() error { return n.stops(ctx, b.engine, name, count) })
	return start, stop, err
}

// singles measures pods one after the other; the first of each side warms it up.
func (b *bench) singles(ctx context.Context, n *node, r *raw) error {
	starting := figure.Figure{Name: "one pod: create to Running", Unit: "ms", AtMost: 1.1}
	ending := figure.Figure{Name: "one pod: delete without grace to no container", Unit: "ms", AtMost: 1.2}
	for i := range b.single + 1 {
		for _, side := range sides.InRun(i) {
			start, stop, err := b.startAndStop(ctx, side, n, r, fmt.Sprint("single-", i), 1)
			if err != nil {
				return err
			}
			if i > 0 {
				b.table.Add(side, starting, float64(start.Took.Microseconds())/1000)
				b.table.Add(side, ending, float64(stop.Took.Microseconds())/1000)
			}
		}
	}
	return nil
}

// batches measures many pods at once.
func (b *bench) batches(ctx context.Context, n *node, r *raw) error {
	for i := range b.runs {
		for _, side := range sides.InRun(i) {
			start, stop, err := b.startAndStop(ctx, side, n, r, fmt.Sprint("batch-", i), b.batch)
			if err != nil {
				return err
			}
			b.note(side, fmt.Sprintf("%d pods at once: create to Running", b.batch), 1.2, start.Took)
			b.note(side, fmt.Sprintf("%d pods at once: delete without grace to no container", b.batch), 1.2, stop.Took)
		}
	}
	return nil
}

// crowds measures what dockerd takes for very many.
func (b *bench) crowds(ctx context.Context, n *node, r *raw) error {
	for i := range 1 + b.runs/4 {
		for _, side := range sides.InRun(i) {
			start, stop, err := b.startAndStop(ctx, side, n, r, fmt.Sprint("crowd-", i), b.many)
			if err != nil {
				return err
			}
			b.note(side, fmt.Sprintf("%d pods at once: create to Running", b.many), 0, start.Took)
			b.note(side, fmt.Sprintf("%d pods started: CPU of dockerd", b.many), 1.3, start.Daemon)
			b.note(side, fmt.Sprintf("%d pods deleted: CPU of dockerd", b.many), 0, stop.Daemon)
		}
	}
	return nil
}
