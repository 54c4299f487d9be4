// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"minik8s.io/minik8s/test/bench/alone"
	"minik8s.io/minik8s/test/bench/figure"
)

// running measures a cluster that is up: what it takes when idle, then how fast it starts pods.
func (b *bench) running(ctx context.Context, side figure.Side) error {
	s, err := b.exec(side, "running")
	if err != nil {
		return err
	}
	if _, err = s.served(ctx); err == nil {
		_, err = s.nodeReady(ctx)
	}
	if err == nil {
		err = b.idling(ctx, side, s)
	}
	if err == nil {
		err = b.startPods(ctx, side, s)
	}
	return errors.Join(err, s.end(ctx))
}

// idling measures memory and processor time of a cluster that has nothing to do. A client has read OpenAPI before, as
// kubectl does: the server keeps what it makes of it.
func (b *bench) idling(ctx context.Context, side figure.Side, s *server) error {
	peak := s.program.Sample(20 * time.Millisecond)
	defer peak()
	if _, err := s.client.Discovery().OpenAPISchema(); err != nil {
		return err
	}
	first, err := s.program.Usage()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.idle): // this is what is measured
	}
	second, err := s.program.Usage()
	if err != nil {
		return err
	}
	state := "memory, idle " + b.idle.String()
	b.memory(side, "resident "+state, 250, second.Resident)
	b.memory(side, "anonymous "+state, 0, second.Anonymous)
	b.memory(side, "resident memory at its peak", 0, second.Peak)
	b.memory(side, "anonymous memory at its peak, since Ready", 0, peak())
	share := 100 * (second.Processor - first.Processor).Seconds() / b.idle.Seconds()
	b.table.Add(side, figure.Figure{Name: "processor, idle " + b.idle.String(), Unit: "% of a core", Within: 2}, share)
	return nil
}

// memory notes some, which is to be no more than so many MiB, if that is not 0.
func (b *bench) memory(side figure.Side, name string, limit float64, bytes int64) {
	b.table.Add(side, figure.Figure{Name: name, Unit: "MiB", Within: limit}, float64(bytes)/(1<<20))
}

// startPods compares how long a pod takes from its creation to Running with how long Docker takes for its two containers.
func (b *bench) startPods(ctx context.Context, side figure.Side, s *server) error {
	docker, err := alone.New(ctx)
	if err != nil {
		return err
	}
	defer docker.Close()
	pod := figure.Figure{Name: "pod of a local image: create to Running", Unit: "ms", AtMost: 1.3}
	for i := range b.pods + 1 { // the first warms both up
		name := "bench-" + strconv.Itoa(i)
		took, err := b.startPod(ctx, s, name)
		if err != nil {
			return err
		}
		pair, err := startPair(ctx, docker, name)
		if err != nil {
			return err
		}
		if i > 0 {
			b.table.Add(side, pod, float64(took.Microseconds())/1000)
			b.table.Add(figure.Upstream, pod, float64(pair.Microseconds())/1000)
		}
		now := int64(0)
		if err := s.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			return err
		}
		// The next pod must not share the engine with the end of this one: the copies do not either.
		if err := docker.Gone(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) startPod(ctx context.Context, s *server, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	api := s.client.CoreV1().Pods("default")
	w, err := api.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"run": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: b.image, Args: []string{"static", "/"}}}},
	}
	begin := time.Now()
	if _, err := api.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Deleted && p.Status.Phase == corev1.PodRunning {
			return time.Since(begin), nil
		}
	}
	return 0, fmt.Errorf("pod %s does not run: %w", name, context.Cause(ctx))
}

// startPair makes and removes a copy of a pod.
func startPair(ctx context.Context, docker *alone.Engine, pod string) (took time.Duration, err error) {
	copies, err := docker.Copies(ctx, pod)
	if err != nil {
		return 0, err
	}
	var made alone.Pod
	defer func() { err = errors.Join(err, copies.Remove(ctx, made)) }()
	begin := time.Now()
	err = copies.Start(ctx, &made)
	return time.Since(begin), err
}
