// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// settle is how long a cluster rests before its memory is read.
const settle = 15 * time.Second

// machines measures what nodes of one machine take: to start with many, to get one more, and in memory.
func (b *bench) machines(ctx context.Context) error {
	for range b.runs {
		alone, err := b.fleetOf(ctx, 1, nil)
		if err != nil {
			return err
		}
		many, err := b.fleetOf(ctx, b.nodes, func(f *fleet) error { return b.addNode(ctx, f) })
		if err != nil {
			return err
		}
		b.table.Add(figure.Ours, figure.Figure{Name: "memory of a further node, resident", Unit: "MiB", Within: 5}, (many-alone)/float64(b.nodes-1))
	}
	return nil
}

// fleetOf starts a cluster, notes how long that took, and returns its memory at rest in MiB.
func (b *bench) fleetOf(ctx context.Context, nodes int, then func(*fleet) error) (memory float64, err error) {
	f, took, err := b.startFleet(ctx, fmt.Sprint("nodes-", nodes), nodes)
	defer func() { err = errors.Join(err, f.end(ctx)) }()
	if err != nil {
		return 0, err
	}
	figures := figure.Figure{Name: fmt.Sprintf("up --nodes %d", nodes), Unit: "ms"}
	if nodes == b.nodes {
		figures.Within = 2000
	}
	b.table.Add(figure.Ours, figures, float64(took.Milliseconds()))
	rest := time.NewTimer(settle)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	status, err := f.Status(ctx)
	if err != nil {
		return 0, err
	}
	u, err := program.UsageOf(status.Pid)
	if err != nil {
		return 0, err
	}
	memory = float64(u.Resident) / (1 << 20)
	b.table.Add(figure.Ours, figure.Figure{Name: fmt.Sprintf("memory at rest with %d nodes, resident", nodes), Unit: "MiB"}, memory)
	if then == nil {
		return memory, nil
	}
	return memory, then(f)
}

// addNode measures how long node add takes until the node is Ready.
func (b *bench) addNode(ctx context.Context, f *fleet) error {
	r, err := f.Run(ctx, "node", "add", "one-more")
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("node add: %s", r)
	}
	if err != nil {
		return err
	}
	b.table.Add(figure.Ours, figure.Figure{Name: fmt.Sprintf("node add, as node %d", b.nodes+1), Unit: "ms", Within: 500}, float64(r.Took.Milliseconds()))
	return nil
}
