// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/bench/load"
)

// storedStarts measures a server that finds many pods in its store when it starts.
func (b *bench) storedStarts(ctx context.Context, s *server) error {
	clients, err := s.clients(ctx, writers)
	if err != nil {
		return err
	}
	if err := prepare(ctx, clients[0]); err != nil {
		return err
	}
	if _, err := load.Each(ctx, clients, b.stored, func(ctx context.Context, c kubernetes.Interface, i int) error {
		_, err := c.CoreV1().Pods(namespace).Create(ctx, load.Pod(fmt.Sprintf("stored-%d", i)), metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	s.Stop()
	again, err := b.start(ctx, s.side)
	if err != nil {
		return err
	}
	return errors.Join(b.storedPods(ctx, again), again.stop())
}

// storedPods measures what a server that has just been started makes of the pods in its store.
func (b *bench) storedPods(ctx context.Context, s *server) error {
	c, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		return err
	}
	about := func(what string) string { return fmt.Sprintf("%d stored pods: %s", b.stored, what) }
	page := func() error {
		list, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 500})
		if err == nil && len(list.Items) != min(500, b.stored) {
			err = fmt.Errorf("a page has %d pods", len(list.Items))
		}
		return err
	}
	if err := page(); err != nil {
		return err
	}
	b.add(s, figure.Figure{Name: about("exec to first page"), Unit: "s", AtMost: 1, Within: 10}, time.Since(s.APIServer.Started).Seconds())
	taken, _, err := s.usage()
	if err != nil {
		return err
	}
	b.add(s, figure.Figure{Name: about("CPU until then, API server"), Unit: "s", AtMost: 1}, taken.Processor.Seconds())
	if err := b.rest(ctx, s, about("after the start"), 0.4); err != nil {
		return err
	}
	for range 20 {
		begin := time.Now()
		if err := page(); err != nil {
			return err
		}
		b.add(s, figure.Figure{Name: about("a page of 500"), Unit: "ms", AtMost: 1}, float64(time.Since(begin).Microseconds())/1000)
	}
	begin := time.Now()
	if err := watchAll(ctx, c, b.stored); err != nil {
		return err
	}
	b.add(s, figure.Figure{Name: about("a watch's initial events"), Unit: "s", AtMost: 1}, time.Since(begin).Seconds())
	return nil
}

// watchAll reads the pods that are there from a watch, as informers do, until it says that these were all.
func watchAll(ctx context.Context, c kubernetes.Interface, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	w, err := c.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	got := 0
	for event := range w.ResultChan() {
		switch event.Type {
		case watch.Added:
			if _, is := event.Object.(*corev1.Pod); is {
				got++
			}
		case watch.Bookmark:
			if m, err := meta.Accessor(event.Object); err == nil && m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				if got != want {
					return fmt.Errorf("a watch told of %d pods first, not of %d", got, want)
				}
				return nil
			}
		case watch.Modified, watch.Deleted, watch.Error:
			return fmt.Errorf("a watch told %s of %v", event.Type, event.Object)
		}
	}
	return errors.Join(errors.New("a watch ended before all pods were told"), ctx.Err())
}
