// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"minik8s.io/minik8s/test/bench/figure"
)

// ends measures how long after the end of a container its pod's status says so to a client that watches. The pods run already;
// one is killed after the other.
func (b *bench) ends(ctx context.Context, n *node) error {
	const name = "end"
	if err := n.starts(ctx, name, b.exits); err != nil {
		return err
	}
	var took []time.Duration
	for i := range b.exits {
		t, err := b.end(ctx, n, fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			return err
		}
		took = append(took, t)
	}
	for what, t := range map[string]time.Duration{"median": figure.Percentile(took, 0.5), "99 %": figure.Percentile(took, 0.99)} {
		b.table.Add(figure.Ours, figure.Figure{Name: "container's end to status in the API, " + what, Unit: "ms", Within: 200},
			float64(t.Microseconds())/1000)
	}
	return n.stops(ctx, b.engine, name, b.exits)
}

// end kills the container of a pod and returns how long the news of that took.
func (b *bench) end(ctx context.Context, n *node, pod string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w, err := n.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	c, err := b.engine.Main(ctx, pod)
	if err != nil {
		return 0, err
	}
	if err := b.engine.ContainerKill(ctx, c.ID, "KILL"); err != nil {
		return 0, err
	}
	for e := range w.ResultChan() {
		p, ok := e.Object.(*corev1.Pod)
		if !ok || e.Type == watch.Deleted || len(p.Status.ContainerStatuses) != 1 ||
			p.Status.ContainerStatuses[0].State.Terminated == nil {
			continue
		}
		told := time.Now()
		c, err := b.engine.ContainerInspect(ctx, c.ID)
		if err != nil {
			return 0, err
		}
		ended, err := time.Parse(time.RFC3339Nano, c.State.FinishedAt)
		return told.Sub(ended), err
	}
	return 0, fmt.Errorf("nobody tells of the end of pod %s: %w", pod, errors.Join(context.Cause(ctx)))
}
