// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/bench/load"
)

// throughput measures how many requests a second a server answers.
func (b *bench) throughput(ctx context.Context, s *server) error {
	for _, n := range []int{1, 16, most} {
		clients, err := s.clients(ctx, n)
		if err != nil {
			return err
		}
		if n == 1 {
			if err := prepare(ctx, clients[0]); err != nil {
				return err
			}
		}
		name := func(i int) string { return fmt.Sprintf("pod-%d-%d", n, i) }
		for _, of := range []struct {
			name string
			f    func(context.Context, kubernetes.Interface, int) error
		}{
			{"create pod", func(ctx context.Context, c kubernetes.Interface, i int) error {
				_, err := c.CoreV1().Pods(namespace).Create(ctx, load.Pod(name(i)), metav1.CreateOptions{})
				return err
			}},
			{"patch pod status", func(ctx context.Context, c kubernetes.Interface, i int) error {
				const status = `{"status":{"phase":"Running","podIP":"10.1.2.3","conditions":[{"type":"Ready","status":"True"}]}}`
				_, err := c.CoreV1().Pods(namespace).Patch(ctx, name(i), types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
				return err
			}},
			{"get pod", func(ctx context.Context, c kubernetes.Interface, i int) error {
				_, err := c.CoreV1().Pods(namespace).Get(ctx, name(i), metav1.GetOptions{})
				return err
			}},
		} {
			took, err := load.Each(ctx, clients, b.requests, of.f)
			if err != nil {
				return fmt.Errorf("%s with %d clients: %w", of.name, n, err)
			}
			b.add(s, figure.Figure{Name: fmt.Sprintf("%s, %d clients", of.name, n), Unit: "/s", AtLeast: 1}, float64(b.requests)/took.Seconds())
		}
	}
	return nil
}

// sent is the annotation that tells when a pod was sent, in nanoseconds.
const sent = "bench/sent"

// watches measures how fast and completely watchers see new pods: one at a time, then as many as can be made.
func (b *bench) watches(ctx context.Context, s *server) error {
	for _, load := range []struct {
		name    string
		writers int
		pause   time.Duration
		pods    int
	}{
		{"20 pods/s", 1, 50 * time.Millisecond, max(b.requests/10, 1)},
		{"unlimited", writers, 0, max(b.requests/2, 1)},
	} {
		seen, took, err := b.fanOut(ctx, s, load.writers, load.pods, load.pause)
		if err != nil {
			return fmt.Errorf("watching, %s: %w", load.name, err)
		}
		name := fmt.Sprintf("%d watchers, %s: ", b.watchers, load.name)
		if len(seen) > 0 {
			b.add(s, figure.Figure{Name: name + "latency, median", Unit: "ms", AtMost: 1}, figure.Percentile(seen, 0.5))
			b.add(s, figure.Figure{Name: name + "latency, 99 %", Unit: "ms"}, figure.Percentile(seen, 0.99))
		}
		if load.pause == 0 {
			b.add(s, figure.Figure{Name: name + "events", Unit: "/s", AtLeast: 1}, float64(len(seen))/took.Seconds())
		}
		b.add(s, figure.Figure{Name: name + "lost", Unit: ""}, float64(b.watchers*load.pods-len(seen)))
	}
	return nil
}

// fanOut makes pods that all watchers should see. It returns the milliseconds that each event took, of those that came, and
// how long it took until the last. A watch that the server ends is not begun again: its events are lost.
func (b *bench) fanOut(ctx context.Context, s *server, writers, pods int, pause time.Duration) ([]float64, time.Duration, error) {
	connections, err := s.clients(ctx, max(b.watchers/10, 1))
	if err != nil {
		return nil, 0, err
	}
	now, err := connections[0].CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, 0, err
	}
	watching, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	latencies := make([][]float64, b.watchers)
	var watchers errgroup.Group
	for i := range b.watchers {
		w, err := connections[i%len(connections)].CoreV1().Pods(namespace).Watch(watching, metav1.ListOptions{ResourceVersion: now.ResourceVersion})
		if err != nil {
			return nil, 0, err
		}
		watchers.Go(func() error {
			defer w.Stop()
			for len(latencies[i]) < pods {
				e, ok := <-w.ResultChan()
				if !ok {
					return nil
				}
				p, ok := e.Object.(*corev1.Pod)
				if !ok || e.Type != watch.Added {
					continue
				}
				var at int64
				if _, err := fmt.Sscan(p.Annotations[sent], &at); err != nil {
					return fmt.Errorf("pod %s: %w", p.Name, err)
				}
				latencies[i] = append(latencies[i], float64(time.Now().UnixNano()-at)/1e6)
			}
			return nil
		})
	}
	clients, err := s.clients(ctx, writers)
	if err != nil {
		return nil, 0, err
	}
	begin := time.Now()
	if _, err := load.Each(ctx, clients, pods, func(ctx context.Context, c kubernetes.Interface, i int) error {
		p := load.Pod(fmt.Sprintf("watched-%d-%d", writers, i))
		p.Annotations = map[string]string{sent: fmt.Sprint(time.Now().UnixNano())}
		if _, err := c.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return err
		}
		if pause > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(pause): // the pace is what is asked for
			}
		}
		return nil
	}); err != nil {
		return nil, 0, err
	}
	if err := watchers.Wait(); err != nil {
		return nil, 0, err
	}
	took := time.Since(begin)
	var all []float64
	for _, l := range latencies {
		all = append(all, l...)
	}
	return all, took, nil
}
