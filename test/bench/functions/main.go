// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Command functions prints how fast functions start, cold and from the pool, what a call costs beside one of the pod itself, and what
// idle functions take; it fails if an aim is missed. Touch it to measure something else of functions. Run it with: make
// bench-functions.
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

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
	"minik8s.io/minik8s/test/bench/alone"
	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/e2e/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// bench is a cluster with the add-on, and what was measured.
type bench struct {
	cluster cluster.Cluster
	client  client.Client
	docker  *alone.Engine
	table   *figure.Table
	starts  int
	calls   int
	load    time.Duration
	idle    int
}

func run(ctx context.Context) (err error) {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	output := figure.Text
	b := &bench{table: &figure.Table{Beside: "DOCKER ALONE"}}
	quick := flag.Bool("quick", false, "a short look, which judges nothing")
	only := flag.String("only", "", "measure only this: cold, pooled, burst, warm or idle")
	binary := flag.String("minik8s", filepath.Join(root, "bin", "minik8s"), "our binary")
	flag.IntVar(&b.starts, "starts", 30, "starts of each kind")
	flag.IntVar(&b.calls, "calls", 3000, "calls whose latency is measured")
	flag.DurationVar(&b.load, "load", 10*time.Second, "how long clients call as fast as they can")
	flag.IntVar(&b.idle, "idle", 100, "functions that nobody calls")
	flag.Var(&output, "o", "`format`: table or json")
	flag.Parse()
	if *quick {
		b.starts, b.calls, b.load, b.idle, b.table.PrintOnly = 5, 500, 3*time.Second, 20, true
	}
	dir, err := os.MkdirTemp("", "minik8s-bench-functions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if b.docker, err = alone.New(ctx); err != nil {
		return err
	}
	defer b.docker.Close()
	b.cluster = cluster.Cluster{Binary: *binary, Name: "e2e-bench-functions", DataDir: filepath.Join(dir, "data")}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		err = errors.Join(err, b.cluster.Down(ctx, "--purge"))
	}()
	if err := b.start(ctx); err != nil {
		return err
	}
	for _, m := range []struct {
		name    string
		measure func(context.Context) error
	}{{"cold", b.cold}, {"pooled", b.pooled}, {"burst", b.burst}, {"warm", b.warm}, {"idle", b.unused}} {
		if *only != "" && *only != m.name {
			continue
		}
		if err := m.measure(ctx); err != nil {
			return err
		}
	}
	return b.table.Print(os.Stdout, output)
}

// start brings the cluster up with the add-on.
func (b *bench) start(ctx context.Context) error {
	up, err := b.cluster.Up(ctx)
	if err != nil {
		return err
	}
	r, err := b.cluster.Run(ctx, "enable", "functions")
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("enable: %s", r)
	}
	if err != nil {
		return err
	}
	config, _, err := cluster.Client(up.Kubeconfig)
	if err != nil {
		return err
	}
	b.client, err = newClient(config)
	return err
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(config, client.Options{Scheme: scheme})
}
