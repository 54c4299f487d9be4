// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command boot prints how fast a cluster and its pods start and what an idle cluster takes: figures, no judgement. Touch
// it to measure something else of the same kind. Run it with: make bench-boot.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/e2e/cluster"
)

// options are the flags.
type options struct {
	runs, pods int
	idle       time.Duration
	image      string
}

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 5, "cold starts of each kind")
	flag.IntVar(&o.pods, "pods", 10, "pods to start, and pairs of containers to compare them with")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch an idle cluster")
	flag.StringVar(&o.image, "image", "minik8s.io/guestbook-frontend:1", "local image of a pod, called with: static /")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "minik8s-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{options: o, binary: filepath.Join(root, "bin", "minik8s"), dir: dir}
	for _, measure := range []func(context.Context) error{b.controlPlane, b.withNode, b.running} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return b.print()
}

// bench collects figures.
type bench struct {
	options
	binary, dir string
	rows        []row
}

// row is one line of the result.
type row struct {
	name, value, spread, wanted string
}

func (b *bench) add(r row) { b.rows = append(b.rows, r) }

// seconds adds the median of some durations.
func (b *bench) seconds(name, wanted string, all []time.Duration) {
	slices.Sort(all)
	b.add(row{
		name:   name,
		value:  fmt.Sprintf("%.3f s", figure.Median(all).Seconds()),
		spread: fmt.Sprintf("%.3f to %.3f, %d runs", all[0].Seconds(), all[len(all)-1].Seconds(), len(all)),
		wanted: wanted,
	})
}

func (b *bench) print() error {
	load, err := figure.Load()
	if err != nil {
		return err
	}
	fmt.Printf("load of the machine at the end: %s\n\n", load)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tMEDIAN\tSPREAD\tWANTED")
	for _, r := range b.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.name, r.value, r.spread, r.wanted)
	}
	return w.Flush()
}
