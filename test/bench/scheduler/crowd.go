// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/program"
)

// crowded is a cluster with many pods, and how many come then, one at a time.
const crowdedNodes, crowdedPods, singles = 5_000, 50_000, 300

// settled is how long a scheduler does nothing before its memory is looked at.
const settled = 15 * time.Second

// stuck is how long one pod may take: the first waits until a scheduler has started.
const stuck = 2 * time.Minute

// crowd measures what a scheduler takes in a cluster with many pods, where one pod after the other is to be bound.
func (b *bench) crowd(ctx context.Context, number int) error {
	name := fmt.Sprintf("Crowd/%dNodes_%dPods", crowdedNodes, crowdedPods)
	return b.cluster(ctx, name, func(ctx context.Context, r *run, s *program.Server) error {
		if err := r.createNodes(ctx, 0, operation{Count: crowdedNodes}); err != nil {
			return err
		}
		if err := r.fill(ctx, "crowd", crowdedPods); err != nil {
			return err
		}
		for _, side := range b.sides.InRun(number) {
			if err := b.bindSingles(ctx, side, name, r, s); err != nil {
				return fmt.Errorf("%s: %w", side, err)
			}
		}
		return nil
	})
}

// fill makes pods that are on the nodes already, one after the other.
func (r *run) fill(ctx context.Context, namespace string, pods int) error {
	nodes, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := r.namespace(ctx, namespace); err != nil {
		return err
	}
	made := make([]*corev1.Pod, pods)
	for i := range made {
		made[i] = basePod()
		made[i].Spec.NodeName = nodes.Items[i%len(nodes.Items)].Name
	}
	return r.create(ctx, namespace, made)
}

// bindSingles has one scheduler bind one pod at a time.
func (b *bench) bindSingles(ctx context.Context, side figure.Side, name string, r *run, s *program.Server) error {
	process, err := b.startScheduler(launch{side: side, upstream: b.upstream, settings: &configv1.KubeSchedulerConfiguration{}, name: filepath.Base(name)}, s)
	if err != nil {
		return err
	}
	defer process.Stop()
	peak := process.Sample(50 * time.Millisecond)
	defer peak()
	namespace := "singles-" + side.String()
	if err := r.namespace(ctx, namespace); err != nil {
		return err
	}
	bound := make(chan struct{}, 1)
	r.progress.onBound(func(in, _ string) {
		if in == namespace {
			bound <- struct{}{}
		}
	})
	defer r.progress.onBound(nil)
	var took []float64
	for i := range 1 + singles {
		begin := time.Now()
		if err := r.create(ctx, namespace, []*corev1.Pod{basePod()}); err != nil {
			return err
		}
		select {
		case <-bound:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(stuck):
			return errors.Join(fmt.Errorf("pod %d is not bound after %s", i, stuck), process.Alive())
		}
		if i > 0 { // the first waits for the scheduler's start
			took = append(took, float64(time.Since(begin).Microseconds())/1000)
		}
		if err := program.Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	if err := program.Pause(ctx, settled); err != nil {
		return err
	}
	usage, err := process.Usage()
	if err != nil {
		return err
	}
	b.table.Add(side, figure.Figure{Name: name + ": one more, from its creation until it is bound, median", Unit: "ms"}, figure.Percentile(took, 0.5))
	b.table.Add(side, figure.Figure{Name: name + ": one more, 99 %", Unit: "ms", Within: 10}, figure.Percentile(took, 0.99))
	b.table.Add(side, figure.Figure{Name: name + ": memory of the scheduler at rest, anonymous", Unit: "MiB", AtMost: 0.5}, float64(usage.Anonymous)/(1<<20))
	b.table.Add(side, figure.Figure{Name: name + ": memory of the scheduler at its peak, anonymous", Unit: "MiB", AtMost: 0.5}, float64(peak())/(1<<20))
	return nil
}
