// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// rest measures what a node with pods takes when nothing happens: the difference between a cluster with it and one that has the
// same objects and no node.
func (b *bench) rest(ctx context.Context, calls *calls) error {
	whole, objects, err := b.with(ctx, calls)
	if err != nil {
		return err
	}
	alone, err := b.without(ctx, objects, calls)
	if err != nil {
		return err
	}
	of := fmt.Sprintf(" of a node with %d pods at rest", b.resting)
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / b.idle.Seconds() }
	mebi := func(bytes int64) float64 { return float64(bytes) / (1 << 20) }
	node := whole.Processor - alone.Processor
	add := func(name, unit string, within, value float64) {
		b.table.Add(figure.Ours, figure.Figure{Name: name, Unit: unit, Within: within}, value)
	}
	add("processor"+of+", with dockerd", "% of a core", 2, share(node+whole.daemon))
	add("processor"+of, "% of a core", 0, share(node))
	add("processor of dockerd with them", "% of a core", 0, share(whole.daemon))
	add("anonymous memory"+of, "MiB", 60, mebi(whole.Anonymous-alone.Anonymous))
	add("resident memory"+of, "MiB", 0, mebi(whole.Resident-alone.Resident))
	add("programs of iptables that it runs", "/min", none, float64(whole.iptables)/b.idle.Minutes())
	return nil
}

// none is a bound that only 0 is within: a bound of 0 is no bound.
const none = 1e-3

// objects are what a cluster with a node has in its store.
type objects struct {
	node *corev1.Node
	pods []corev1.Pod
}

// with is what a cluster with a node takes, and what it has in its store meanwhile.
func (b *bench) with(ctx context.Context, calls *calls) (_ idle, _ objects, err error) {
	n, err := b.startNode(ctx, "rest")
	if err != nil {
		return idle{}, objects{}, err
	}
	defer func() { err = errors.Join(err, n.end(ctx)) }()
	const name = "rest"
	if err := n.starts(ctx, name, b.resting); err != nil {
		return idle{}, objects{}, err
	}
	pods, err := n.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: group + "=" + name})
	if err != nil {
		return idle{}, objects{}, err
	}
	registered, err := n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return idle{}, objects{}, err
	}
	whole, err := b.idling(ctx, n, calls)
	if err != nil {
		return idle{}, objects{}, err
	}
	return whole, objects{node: registered, pods: pods.Items}, n.stops(ctx, b.engine, name, b.resting)
}

// without is what a control plane with the same objects takes.
func (b *bench) without(ctx context.Context, of objects, calls *calls) (_ idle, err error) {
	n, err := b.startNode(ctx, "alone", "--nodes", "0")
	if err != nil {
		return idle{}, err
	}
	defer func() { err = errors.Join(err, n.end(ctx)) }()
	if err := n.register(ctx, of.node); err != nil {
		return idle{}, err
	}
	api := n.client.CoreV1().Pods("default")
	for i := range of.pods {
		p := &of.pods[i]
		status := p.Status
		p.ResourceVersion, p.UID = "", ""
		made, err := api.Create(ctx, p, metav1.CreateOptions{})
		if err == nil {
			made.Status = status
			_, err = api.UpdateStatus(ctx, made, metav1.UpdateOptions{})
		}
		if err != nil {
			return idle{}, err
		}
	}
	return b.idling(ctx, n, calls)
}

// register makes a node that nobody is.
func (n *node) register(ctx context.Context, found *corev1.Node) error {
	status := found.Status
	found.ResourceVersion, found.UID = "", ""
	made, err := n.client.CoreV1().Nodes().Create(ctx, found, metav1.CreateOptions{})
	if err == nil {
		made.Status = status
		_, err = n.client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	}
	return err
}

// idle is what was taken while nothing happened.
type idle struct {
	program.Memory
	Processor, daemon time.Duration
	iptables          int
}

// idling lets a cluster come to rest and then watches it.
func (b *bench) idling(ctx context.Context, n *node, calls *calls) (idle, error) {
	if err := pass(ctx, b.idle/2); err != nil {
		return idle{}, err
	}
	before, err := n.program.Usage()
	if err != nil {
		return idle{}, err
	}
	forked, err := calls.count()
	if err != nil {
		return idle{}, err
	}
	c, err := b.engine.CostOf(func() error { return pass(ctx, b.idle) })
	if err != nil {
		return idle{}, err
	}
	after, err := n.program.Usage()
	if err != nil {
		return idle{}, err
	}
	since, err := calls.count()
	return idle{Memory: after.Memory, Processor: after.Processor - before.Processor, daemon: c.Daemon, iptables: since - forked}, err
}

// pass lets time pass, which is what is measured.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// calls counts the programs of iptables that are run by what this process starts.
type calls struct{ log string }

// countIPTables puts others of the same names before those programs in PATH, which write a line each and go on as the real ones.
func countIPTables(dir string) (*calls, error) {
	c := &calls{log: filepath.Join(dir, "iptables.log")}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return nil, err
	}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore",
		"ip6tables", "ip6tables-save", "ip6tables-restore"} {
		program, err := exec.LookPath(name)
		if err != nil {
			return nil, err
		}
		script := fmt.Sprintf("#!/bin/sh\necho %s >>'%s'\nexec %s \"$@\"\n", name, c.log, program)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			return nil, err
		}
	}
	return c, os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func (c *calls) count() (int, error) {
	data, err := os.ReadFile(c.log)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	return bytes.Count(data, []byte("\n")), err
}
