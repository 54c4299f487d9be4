// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command boot prints how fast a cluster and its pods start and what an idle cluster takes, by our binary and by the same
// without a profile for the compiler, in turns, and fails if an aim is missed. Touch it to measure something else of the same
// kind. Run it with: make bench-boot.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/e2e/cluster"
)

// options are the flags.
type options struct {
	ours, plain string

	runs, clusters, pods int
	idle                 time.Duration
	image                string
	output               figure.Format
	sides                figure.Sides
	printOnly            bool
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

func run(ctx context.Context) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	o := options{output: figure.Text, sides: figure.Sides{figure.Ours, figure.Plain}}
	flag.StringVar(&o.ours, "minik8s", filepath.Join(root, "bin", "minik8s"), "our binary")
	flag.StringVar(&o.plain, "plain", filepath.Join(root, "bin", "minik8s-plain"), "our binary, built without a profile")
	flag.IntVar(&o.runs, "runs", 5, "cold starts of each kind and binary")
	flag.IntVar(&o.clusters, "clusters", 3, "clusters of each binary that are watched and run pods")
	flag.IntVar(&o.pods, "pods", 10, "pods to start, and pairs of containers to compare them with")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch an idle cluster")
	flag.StringVar(&o.image, "image", "minik8s.io/guestbook-frontend:1", "local image of a pod, called with: static /")
	flag.Var(&o.output, "o", "`format`: table or json")
	flag.Var(&o.sides, "sides", "whose programs are measured: ours and plain")
	flag.BoolVar(&o.printOnly, "print-only", false, "exit with 0 also if an aim is missed")
	flag.Parse()
	if slices.Contains(o.sides, figure.Upstream) {
		return errors.New("-sides: upstream has no such program")
	}
	dir, err := os.MkdirTemp("", "minik8s-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{options: o, dir: dir, table: figure.Table{PrintOnly: o.printOnly, Beside: "DOCKER ALONE"}}
	for i := range o.runs {
		for _, side := range o.sides.InRun(i) {
			if err := errors.Join(b.controlPlane(ctx, side), b.withNode(ctx, side)); err != nil {
				return err
			}
		}
	}
	for i := range o.clusters {
		for _, side := range o.sides.InRun(i) {
			if err := b.running(ctx, side); err != nil {
				return err
			}
		}
	}
	return b.table.Print(os.Stdout, o.output)
}

// bench collects figures.
type bench struct {
	options
	dir   string
	table figure.Table
}

// within notes a duration that is to be no longer than so many milliseconds, if that is not 0.
func (b *bench) within(side figure.Side, name string, limit float64, took time.Duration) {
	b.table.Add(side, figure.Figure{Name: name, Unit: "ms", Within: limit}, float64(took.Microseconds())/1000)
}
