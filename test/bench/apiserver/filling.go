// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/bench/load"
	"minik8s.io/minik8s/test/program"
)

// writers is how many clients fill a server.
const writers = 16

// filling measures a server that rests, that gets many objects, and that lists and watches them.
func (b *bench) filling(ctx context.Context, s *server) error {
	peak := s.APIServer.Sample(20 * time.Millisecond)
	defer peak()
	if _, err := s.everyday(ctx); err != nil {
		return err
	}
	if err := b.rest(ctx, s, "idle", 0.5); err != nil {
		return err
	}
	clients, err := s.clients(ctx, writers)
	if err != nil {
		return err
	}
	if err := prepare(ctx, clients[0]); err != nil {
		return err
	}
	before, etcdBefore, err := s.usage()
	if err != nil {
		return err
	}
	if err := b.profiled(ctx, s, "creating", func() error {
		_, err := load.Each(ctx, clients, b.objects, func(ctx context.Context, c kubernetes.Interface, i int) error {
			_, err := c.CoreV1().Pods(namespace).Create(ctx, load.Pod(fmt.Sprintf("kept-%d", i)), metav1.CreateOptions{})
			return err
		})
		return err
	}); err != nil {
		return err
	}
	after, etcdAfter, err := s.usage()
	if err != nil {
		return err
	}
	per10k := func(d time.Duration) float64 { return d.Seconds() * 10000 / float64(b.objects) }
	b.add(s, figure.Figure{Name: "CPU per 10,000 pod creates, API server", Unit: "s", AtMost: 0.8}, per10k(after.Processor-before.Processor))
	b.add(s, figure.Figure{Name: "CPU per 10,000 pod creates, with etcd", Unit: "s"}, per10k(after.Processor-before.Processor+etcdAfter.Processor-etcdBefore.Processor))
	if _, err := load.Each(ctx, clients, b.objects, func(ctx context.Context, c kubernetes.Interface, i int) error {
		_, err := c.CoreV1().ConfigMaps(namespace).Create(ctx, configMap(fmt.Sprintf("kept-%d", i)), metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := b.rest(ctx, s, fmt.Sprintf("with %d pods and ConfigMaps", b.objects), 0.6); err != nil {
		return err
	}
	if err := b.profiled(ctx, s, "listing", func() error { return b.lists(ctx, s, clients[0]) }); err != nil {
		return err
	}
	if err := b.profiled(ctx, s, "watching", func() error { return b.watches(ctx, s) }); err != nil {
		return err
	}
	last, _, err := s.usage()
	if err != nil {
		return err
	}
	b.memory(s, "at its peak, API server", 0.5, program.Memory{Resident: last.Peak, Anonymous: peak()})
	return nil
}

// memory notes it in both ways: all that is resident, and of that what is no file, for pages of the program can be dropped.
func (b *bench) memory(s *server, state string, atMost float64, m program.Memory) {
	b.add(s, figure.Figure{Name: "resident memory " + state, Unit: "MiB", AtMost: atMost}, float64(m.Resident)/(1<<20))
	b.add(s, figure.Figure{Name: "anonymous memory " + state, Unit: "MiB", AtMost: atMost}, float64(m.Anonymous)/(1<<20))
}

// rest measures the memory of a server after some time without requests.
func (b *bench) rest(ctx context.Context, s *server, state string, atMost float64) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.idle): // this is what is measured
	}
	apiserver, etcd, err := s.usage()
	if err != nil {
		return err
	}
	b.memory(s, state+", API server", atMost, apiserver.Memory)
	b.memory(s, state+", with etcd", atMost, apiserver.Plus(etcd.Memory))
	return nil
}

// lists measures how long it takes to read all pods, to the last byte and not decoded.
func (b *bench) lists(ctx context.Context, s *server, c kubernetes.Interface) error {
	for _, how := range []struct {
		name, accept string
		limit        int
		atMost       float64
	}{
		{"json", runtime.ContentTypeJSON, 0, 0.3},
		{"protobuf", runtime.ContentTypeProtobuf, 0, 0.15},
		{"protobuf, pages of 500", runtime.ContentTypeProtobuf, 500, 1},
	} {
		for range 5 {
			begin := time.Now()
			if err := list(ctx, c, how.accept, how.limit); err != nil {
				return fmt.Errorf("listing pods as %s: %w", how.name, err)
			}
			b.add(s, figure.Figure{Name: fmt.Sprintf("list of %d pods, %s", b.objects, how.name), Unit: "ms", AtMost: how.atMost}, float64(time.Since(begin).Milliseconds()))
		}
	}
	return nil
}

func list(ctx context.Context, c kubernetes.Interface, accept string, limit int) error {
	request := c.CoreV1().RESTClient().Get().Resource("pods").Namespace(namespace).SetHeader("Accept", accept)
	if limit > 0 {
		for next := ""; ; {
			page, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: int64(limit), Continue: next})
			if err != nil {
				return err
			}
			if next = page.Continue; next == "" {
				return nil
			}
		}
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, body)
	return err
}

// namespace is where all objects are.
const namespace = "bench"

func prepare(ctx context.Context, c kubernetes.Interface) error {
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	// No controller runs that would make it, and pods need it.
	_, err := c.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	return err
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"config.yaml": strings.Repeat("key: value of a setting\n", 42)}}
}
