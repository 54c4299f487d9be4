// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command plane measures whole control planes side by side, in turns, as a user sees them from outside: ours, which is one process,
// and upstream's four programs. It prints the ratio of each figure with what is aimed at, and fails if that is missed. Touch it to
// measure something else that takes all parts together. Run it with: make bench-plane.
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

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/bench/profile"
	"minik8s.io/minik8s/test/e2e/cluster"
	"minik8s.io/minik8s/test/program"
)

// patience is how long one control plane may be measured.
const patience = 20 * time.Minute

// options are the flags.
type options struct {
	ours, plain, upstream string // upstream is a folder

	runs, nodes, pods int
	rest              time.Duration
	output            figure.Format
	sides             figure.Sides
	profiles          profile.Dir // not of upstream's programs
	// printOnly makes a missed aim no error.
	printOnly bool
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

// flags are those of the command line.
func flags() (options, error) {
	root, err := cluster.Root()
	if err != nil {
		return options{}, err
	}
	o := options{output: figure.Text, sides: figure.Sides{figure.Upstream, figure.Ours, figure.Plain}}
	flag.StringVar(&o.ours, "minik8s", filepath.Join(root, "bin", "minik8s"), "our binary; it is the etcd of all")
	flag.StringVar(&o.plain, "plain", filepath.Join(root, "bin", "minik8s-plain"), "our binary, built without a profile")
	flag.StringVar(&o.upstream, "upstream", filepath.Join(root, "test", "conformance", "bin"), "folder of upstream's programs")
	flag.IntVar(&o.runs, "runs", 3, "how often each is measured, in turn")
	flag.IntVar(&o.nodes, "nodes", 100, "nodes, of which only their heartbeats are there")
	flag.IntVar(&o.pods, "pods", 5000, "pods to wait for nodes")
	flag.DurationVar(&o.rest, "rest", 30*time.Second, "how long to watch one that has nothing to do")
	flag.Var(&o.output, "o", "`format`: table or json")
	flag.Var(&o.sides, "sides", "whose programs are measured")
	flag.StringVar((*string)(&o.profiles), "profiles", "", "folder to write profiles of ours to (go tool pprof)")
	flag.BoolVar(&o.printOnly, "print-only", false, "exit with 0 also if an aim is missed")
	quick := flag.Bool("quick", false, "a short look: one run with few pods, whose figures say little")
	flag.Parse()
	if *quick {
		o.runs, o.pods, o.rest = 1, 500, 5*time.Second
	}
	return o, nil
}

func run(ctx context.Context) error {
	klog.SetLogger(logr.Discard()) // at the end of a control plane its watches are cut
	o, err := flags()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "minik8s-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	id, err := program.NewIdentity(dir, "127.0.0.1")
	if err != nil {
		return err
	}
	b := &bench{options: o, identity: id, dir: dir, table: figure.Table{PrintOnly: o.printOnly}}
	for i := range o.runs {
		for _, side := range b.sides.InRun(i) {
			begin := time.Now()
			if err := b.measure(ctx, side); err != nil {
				return fmt.Errorf("%s: %w", side, err)
			}
			fmt.Fprintf(os.Stderr, "run %d, %s: %.0f s\n", i+1, side, time.Since(begin).Seconds())
		}
	}
	return b.table.Print(os.Stdout, b.output)
}

// bench collects figures.
type bench struct {
	options
	identity *program.Identity
	dir      string
	table    figure.Table
}

// measure measures a control plane that is started for it.
func (b *bench) measure(ctx context.Context, side figure.Side) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begin := time.Now()
	p, err := b.start(ctx, side)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop(context.WithoutCancel(ctx))) }()
	b.table.Add(side, figure.Figure{Name: "ready after exec", Unit: "ms", AtMost: 0.15}, float64(time.Since(begin).Milliseconds()))
	return (&measurement{bench: b, side: side, plane: p}).all(ctx)
}
