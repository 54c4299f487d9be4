// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command network measures how fast Services reach the kernel beside upstream's kube-proxy, how many names are answered beside CoreDNS, how
// fast HTTP is routed beside nginx, what goes through between pods beside Docker's bridge, and what nodes of one machine take; it fails if an aim
// is missed. Touch it to
// measure something else of the network. Run it with: make bench-network.
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
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/e2e/cluster"
	"minik8s.io/minik8s/test/program"
)

// options are the flags.
type options struct {
	minik8s, apiserver, upstream, coredns, nginx string

	count, endpoints, more int
	runs, changes, nodes   int
	load                   time.Duration
	modes                  []string
	only                   *regexp.Regexp
	output                 figure.Format
	sides                  figure.Sides
	// printOnly makes a missed aim no error.
	printOnly bool
}

// commands are what this program is in processes and containers of its own, by its first argument.
var commands = map[string]func(context.Context) error{
	proxyCommand: serveProxy, routerCommand: serveRouter, namesCommand: serveNames, peerCommand: servePeer, sendCommand: sendToPeer,
}

// cases are what is measured, each with clusters of its own.
var cases = []struct {
	name    string
	measure func(*bench, context.Context) error
}{
	{"services", (*bench).services}, {"names", (*bench).names}, {"router", (*bench).router}, {"pods", (*bench).pods}, {"nodes", (*bench).machines},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := compare
	if len(os.Args) > 1 && commands[os.Args[1]] != nil {
		run = commands[os.Args[1]]
	}
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func compare(ctx context.Context) (err error) {
	klog.SetLogger(logr.Discard()) // at the end of a cluster its watches are cut
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	minik8s := filepath.Join(root, "bin", "minik8s")
	o := options{output: figure.Text, sides: figure.Sides{figure.Upstream, figure.Ours}}
	flag.StringVar(&o.minik8s, "minik8s", minik8s, "our binary; it is the etcd of all")
	flag.StringVar(&o.apiserver, "apiserver", minik8s, "the API server of all")
	flag.StringVar(&o.upstream, "upstream", filepath.Join(root, "test", "conformance", "bin", "kube-proxy"), "upstream's kube-proxy")
	flag.StringVar(&o.coredns, "coredns", filepath.Join(root, "test", "conformance", "bin", "coredns"), "what cluster DNS is compared with")
	flag.StringVar(&o.nginx, "nginx", "nginx", "what the router is compared with (Debian: nginx-light)")
	flag.IntVar(&o.count, "services", 5000, "Services")
	flag.IntVar(&o.endpoints, "endpoints", 5, "endpoints of each")
	flag.IntVar(&o.more, "more", 20000, "Services with which the first sync of nftables is measured once more, 0 for none")
	flag.IntVar(&o.runs, "runs", 3, "how often everything is measured, of each proxy in turn")
	flag.IntVar(&o.changes, "changes", 60, "endpoints that change and Services that are added, one after the other")
	flag.IntVar(&o.nodes, "nodes", 10, "nodes of one machine")
	flag.DurationVar(&o.load, "load", 10*time.Second, "how long requests and bytes are sent")
	flag.Var(&o.output, "o", "`format`: table or json")
	flag.Var(&o.sides, "sides", "whose proxies are measured: upstream, ours")
	flag.BoolVar(&o.printOnly, "print-only", false, "exit with 0 also if an aim is missed")
	modes := flag.String("modes", strings.Join(allModes, ","), "how rules reach the kernel")
	only := flag.String("only", "", "regular expression: the cases to measure, of services, names, router, pods and nodes")
	quick := flag.Bool("quick", false, "a short look: one run, with a tenth of the Services")
	flag.Parse()
	if o.modes = strings.Split(*modes, ","); *quick {
		o.runs, o.count, o.more, o.changes, o.load = 1, 500, 0, 15, 3*time.Second
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
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
	b := &bench{options: o, dir: dir, table: figure.Table{PrintOnly: o.printOnly}}
	if b.identity, err = program.NewIdentity(dir, "127.0.0.1"); err != nil {
		return err
	}
	for _, c := range cases {
		if !o.only.MatchString(c.name) {
			continue
		}
		if err := c.measure(b, ctx); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", c.name, err), b.table.Print(os.Stdout, o.output)) // what was measured before is worth something
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
