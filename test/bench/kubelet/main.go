// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubelet measures pods beside the calls of Docker's API that make the same containers and links, in turns, and what a
// node with pods takes at rest; it fails if an aim is missed. Touch it to measure something else of a node. Run it with:
// make bench-kubelet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"minik8s.io/minik8s/test/bench/alone"
	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/e2e/cluster"
)

// options are the flags.
type options struct {
	minik8s, image string

	single, runs, batch, many, exits, resting int
	idle                                      time.Duration
	output                                    figure.Format
	printOnly                                 bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	o := options{output: figure.Text}
	quick := flag.Bool("quick", false, "a short look: 100 pods instead of 500, fewer repetitions")
	flag.StringVar(&o.minik8s, "minik8s", filepath.Join(root, "bin", "minik8s"), "our binary")
	flag.StringVar(&o.image, "image", "minik8s.io/guestbook-frontend:1", "local image of a pod, called with: static /")
	flag.IntVar(&o.single, "single", 20, "pods that are started alone")
	flag.IntVar(&o.runs, "runs", 5, "batches of pods that are started and deleted at once, by each side")
	flag.IntVar(&o.batch, "batch", 50, "pods of a batch")
	flag.IntVar(&o.many, "many", 500, "pods whose start dockerd is watched at")
	flag.IntVar(&o.exits, "exits", 100, "containers whose end is waited for")
	flag.IntVar(&o.resting, "resting", 100, "pods that a node has whose rest is watched")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch a node at rest")
	flag.Var(&o.output, "o", "`format`: table or json")
	flag.BoolVar(&o.printOnly, "print-only", false, "exit with 0 also if an aim is missed")
	flag.Parse()
	if *quick {
		o.single, o.runs, o.many, o.exits = 10, 2, 100, 30
	}
	load, err := figure.Load()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "load of the machine at the beginning: %s\n", load)
	dir, err := os.MkdirTemp("", "minik8s-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	engine, err := alone.New(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	b := &bench{options: o, dir: dir, engine: engine, table: figure.Table{PrintOnly: o.printOnly, Beside: "DOCKER ALONE"}}
	calls, err := countIPTables(dir)
	if err != nil {
		return err
	}
	if err := b.measure(ctx, calls); err != nil {
		return err
	}
	return b.table.Print(os.Stdout, o.output)
}

// bench collects figures.
type bench struct {
	options
	dir    string
	engine *alone.Engine
	table  figure.Table
}

// measure measures what is in motion in one cluster, and rest in two that are as fresh as each other.
func (b *bench) measure(ctx context.Context, calls *calls) error {
	if err := b.motion(ctx); err != nil {
		return err
	}
	return b.rest(ctx, calls)
}

func (b *bench) motion(ctx context.Context) (err error) {
	n, err := b.startNode(ctx, "node")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.end(ctx)) }()
	r, err := newRaw(ctx, b, n)
	if err != nil {
		return err
	}
	for _, measure := range []func(context.Context, *node, *raw) error{b.singles, b.batches, b.crowds} {
		if err := measure(ctx, n, r); err != nil {
			return err
		}
	}
	return b.ends(ctx, n)
}
