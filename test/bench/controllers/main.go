// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command controllers measures our controllers and upstream's kube-controller-manager side by side, in turns, each against
// upstream's kube-apiserver, prints the ratio of each figure with what is aimed at, and fails if that is missed. Touch it to
// measure another case. Run it with: make bench-controllers.
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

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/e2e/cluster"
	"minik8s.io/minik8s/test/program"
)

// managerCommand is the argument with which this program is our manager, a process of its own.
const managerCommand = "manager"

// options are the flags.
type options struct {
	minik8s, apiserver, upstream, plain string

	runs  int
	scale float64
	idle  time.Duration
	only  *regexp.Regexp
	// profiles is a folder, or empty.
	profiles string
	output   figure.Format
	sides    figure.Sides
	// printOnly makes a missed aim no error.
	printOnly bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := compare
	if len(os.Args) > 1 && os.Args[1] == managerCommand {
		run = manage
	}
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func compare(ctx context.Context) error {
	klog.SetLogger(logr.Discard()) // at the end of a cluster its watches are cut
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	built := filepath.Join(root, "test", "conformance", "bin")
	o := options{output: figure.Text, sides: figure.Sides{figure.Upstream, figure.Ours, figure.Plain}}
	flag.StringVar(&o.minik8s, "minik8s", filepath.Join(root, "bin", "minik8s"), "our binary; it is the etcd of both")
	flag.StringVar(&o.apiserver, "apiserver", filepath.Join(built, "kube-apiserver"), "the API server of both")
	flag.StringVar(&o.upstream, "upstream", filepath.Join(built, "kube-controller-manager"), "upstream's kube-controller-manager")
	flag.StringVar(&o.plain, "plain", filepath.Join(root, "bin", "bench-controllers-plain"), "this program, built without a profile")
	flag.BoolVar(&o.printOnly, "print-only", false, "exit with 0 also if an aim is missed")
	flag.IntVar(&o.runs, "runs", 3, "how often everything is measured, of each manager in turn")
	flag.Float64Var(&o.scale, "scale", 1, "part of the objects of each case")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "how long a manager rests before its memory is read")
	flag.StringVar(&o.profiles, "profiles", "", "folder for profiles of our manager (go tool pprof), one of the CPU and one of the memory a case")
	flag.Var(&o.output, "o", "`format`: table or json")
	flag.Var(&o.sides, "sides", "whose programs are measured")
	only := flag.String("only", "", "regular expression: the cases to measure, of deployment, namespace, garbage, job, pods and silence")
	quick := flag.Bool("quick", false, "a short look: one run of everything, with a tenth of the objects")
	flag.Parse()
	if *quick {
		o.runs, o.scale, o.idle = 1, 0.1, 3*time.Second
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
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
		for _, c := range cases {
			if !o.only.MatchString(c.name) {
				continue
			}
			for _, side := range b.sides.InRun(i) {
				begin := time.Now()
				if err := b.measure(ctx, side, c); err != nil {
					// What has been measured before is worth something.
					return errors.Join(fmt.Errorf("%s, %s: %w", c.name, side, err), b.table.Print(os.Stdout, o.output))
				}
				fmt.Fprintf(os.Stderr, "%s, run %d, %s: %.0f s\n", c.name, i+1, side, time.Since(begin).Seconds())
			}
		}
	}
	return b.table.Print(os.Stdout, o.output)
}

// bench collects figures.
type bench struct {
	options
	identity *program.Identity
	dir      string
	table    figure.Table
}

// measure runs one case with one manager and an empty cluster.
func (b *bench) measure(ctx context.Context, side figure.Side, c testCase) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k, err := b.start(ctx, side, c.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.stop()) }()
	peak := k.manager.Sample(20 * time.Millisecond)
	defer peak()
	if err := c.prepare(ctx, k, b.scale); err != nil {
		return err
	}
	if err := program.Pause(ctx, b.idle); err != nil {
		return err
	}
	idle, err := k.manager.Usage()
	if err != nil {
		return err
	}
	b.memory(side, c.name+": memory of the manager at rest", idle.Memory)
	for _, step := range c.steps {
		before, err := k.manager.Usage()
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := step.do(ctx, k, b.scale); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		took := time.Since(begin)
		after, err := k.manager.Usage()
		if err != nil {
			return err
		}
		if !step.rest {
			b.table.Add(side, figure.Figure{Name: step.name, Unit: "s", AtMost: 0.7, Within: step.within.Seconds()}, took.Seconds())
		}
		b.table.Add(side, figure.Figure{Name: step.name + ": CPU of the manager", Unit: "s", AtMost: 0.5}, (after.Processor - before.Processor).Seconds())
		b.memory(side, step.name+": memory of the manager", after.Memory)
	}
	last, err := k.manager.Usage()
	if err != nil {
		return err
	}
	b.memory(side, c.name+": memory of the manager at its peak", program.Memory{Resident: last.Peak, Anonymous: peak()})
	return nil
}

// memory notes it in both ways: all that is resident, and of that what is no file, for pages of the program can be dropped.
func (b *bench) memory(side figure.Side, name string, m program.Memory) {
	b.table.Add(side, figure.Figure{Name: name + ", resident", Unit: "MiB", AtMost: 0.5}, float64(m.Resident)/(1<<20))
	b.table.Add(side, figure.Figure{Name: name + ", anonymous", Unit: "MiB", AtMost: 0.5}, float64(m.Anonymous)/(1<<20))
}
