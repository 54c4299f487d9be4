// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command apiserver measures our kube-apiserver and upstream's side by side, in turns, each on the same etcd, prints the ratio
// of each figure with what is aimed at, and fails if that is missed. Touch it to measure something else of the same kind. Run it with:
// make bench-apiserver.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/bench/profile"
	"minik8s.io/minik8s/test/e2e/cluster"
	"minik8s.io/minik8s/test/program"
)

// options are the flags.
type options struct {
	programs
	runs, starts, objects, requests, definitions, watchers, stored int
	idle                                                           time.Duration
	printOnly                                                      bool
	output                                                         figure.Format
	sides                                                          figure.Sides
	profiles                                                       profile.Dir
	only                                                           *regexp.Regexp
}

func main() {
	var o options
	var quick bool
	root, err := cluster.Root()
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
	flag.StringVar(&o.ours, "minik8s", filepath.Join(root, "bin", "minik8s"), "our binary; it is also the etcd of both")
	flag.StringVar(&o.plain, "plain", filepath.Join(root, "bin", "minik8s-plain"), "our binary, built without a profile")
	flag.StringVar(&o.upstream, "upstream", filepath.Join(root, "test", "conformance", "bin", "kube-apiserver"), "upstream's kube-apiserver")
	flag.IntVar(&o.runs, "runs", 3, "how often everything is measured, of each server in turn")
	flag.IntVar(&o.starts, "starts", 5, "starts of each server")
	flag.IntVar(&o.objects, "objects", 10000, "pods and ConfigMaps that are kept")
	flag.IntVar(&o.requests, "requests", 2000, "requests of each kind and number of clients")
	flag.IntVar(&o.definitions, "definitions", 125, "custom resource definitions")
	flag.IntVar(&o.watchers, "watchers", 100, "watchers of pods, over a tenth as many connections")
	flag.IntVar(&o.stored, "stored", 100000, "pods that are in the store when a server starts")
	flag.DurationVar(&o.idle, "idle", 30*time.Second, "how long a server rests before its memory is read")
	o.output, o.sides = figure.Text, figure.Sides{figure.Upstream, figure.Ours, figure.Plain}
	flag.Var(&o.output, "o", "`format`: table or json")
	flag.Var(&o.sides, "sides", "whose programs are measured")
	flag.StringVar((*string)(&o.profiles), "profiles", "", "folder to write profiles of the servers to (go tool pprof)")
	only := flag.String("only", "", "regular expression: what to measure, of starts, filling, throughput, definitions and stored")
	flag.BoolVar(&o.printOnly, "print-only", false, "exit with 0 also if an aim is missed")
	flag.BoolVar(&quick, "quick", false, "a minute's look: one run of everything, with a twentieth of the objects")
	flag.Parse()
	if quick {
		o.runs, o.starts, o.objects, o.requests, o.stored, o.idle = 1, 1, o.objects/20, o.requests/20, o.stored/20, 3*time.Second
		o.definitions, o.watchers = max(o.definitions/10, 1), o.watchers/5
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		fmt.Fprintf(os.Stderr, "error: -only: %v\n", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
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
	measurements := []measurement{{"filling", b.filling}, {"throughput", func(ctx context.Context, s *server) error {
		return b.profiled(ctx, s, "throughput", func() error { return b.throughput(ctx, s) })
	}}, {"definitions", b.definitionsGrowth}, {"stored", b.storedStarts}}
	for i := range o.starts {
		if err := b.all(ctx, i, measurement{"starts", func(context.Context, *server) error { return nil }}); err != nil {
			return err
		}
	}
	for i := range o.runs {
		for _, m := range measurements {
			if err := b.all(ctx, i, m); err != nil {
				return err
			}
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

// add notes what was measured once.
func (b *bench) add(s *server, f figure.Figure, value float64) { b.table.Add(s.side, f, value) }

// measurement is what is done with a fresh server.
type measurement struct {
	name string
	f    func(context.Context, *server) error
}

// all starts one server after the other, each with an empty etcd, and measures it.
func (b *bench) all(ctx context.Context, run int, m measurement) error {
	if !b.only.MatchString(m.name) {
		return nil
	}
	for _, side := range b.sides.InRun(run) {
		begin := time.Now()
		s, err := b.start(ctx, side)
		if err != nil {
			return err
		}
		b.add(s, figure.Figure{Name: "ready after exec", Unit: "ms", AtMost: 0.4}, float64(s.ready.Milliseconds()))
		b.add(s, figure.Figure{Name: "CPU when ready", Unit: "ms"}, float64(s.readyUsage.Processor.Milliseconds()))
		if err := errors.Join(m.f(ctx, s), s.stop()); err != nil {
			return fmt.Errorf("%s: %w", side, err)
		}
		fmt.Fprintf(os.Stderr, "%s, run %d, %s: %.0f s\n", m.name, run+1, side, time.Since(begin).Seconds())
	}
	return nil
}
