// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/e2e/cluster"
)

// server is a cluster in the foreground of a process that is measured from its exec on.
type server struct {
	cluster.Cluster
	process *os.Process
	ended   chan error
	begin   time.Time
	client  kubernetes.Interface
}

// exec starts a cluster with an empty data directory.
func (b *bench) exec(ctx context.Context, name string, args ...string) (*server, error) {
	s := &server{Cluster: cluster.Cluster{Binary: b.binary, Name: "bench-" + name, DataDir: filepath.Join(b.dir, name)}, ended: make(chan error, 1)}
	cmd := s.Command(ctx, "server", append([]string{"--data-dir", s.DataDir}, args...)...)
	log, err := os.Create(filepath.Join(b.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	s.begin = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.process = cmd.Process
	go func() { s.ended <- cmd.Wait() }()
	return s, nil
}

// end stops the process and removes all of the cluster.
func (s *server) end(ctx context.Context) error {
	if err := s.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	var exit *exec.ExitError
	if err := <-s.ended; err != nil && !errors.As(err, &exit) {
		return err
	}
	return s.Down(context.WithoutCancel(ctx), "--purge")
}

// until asks every two milliseconds whether something is so, and returns the time since the exec.
func (s *server) until(ctx context.Context, what string, is func(context.Context) bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !is(ctx) {
		select {
		case err := <-s.ended:
			s.ended <- err
			return 0, fmt.Errorf("waiting for %s: the cluster ended: %w", what, err)
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
	return time.Since(s.begin), nil
}

// served waits until /readyz is ok and the default ServiceAccount is there.
func (s *server) served(ctx context.Context) (time.Duration, error) {
	kubeconfig := filepath.Join(s.DataDir, "kubeconfig")
	if _, err := s.until(ctx, "the kubeconfig", func(context.Context) bool { _, err := os.Stat(kubeconfig); return err == nil }); err != nil {
		return 0, err
	}
	var err error
	if _, s.client, err = cluster.Client(kubeconfig); err != nil {
		return 0, err
	}
	return s.until(ctx, "/readyz and the default ServiceAccount", func(ctx context.Context) bool {
		if _, err := s.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return false
		}
		_, err := s.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// nodeReady waits for the node.
func (s *server) nodeReady(ctx context.Context) (time.Duration, error) {
	return s.until(ctx, "the node", func(ctx context.Context) bool {
		list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return false
		}
		for _, c := range list.Items[0].Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	})
}

// controlPlane measures cold starts without a node.
func (b *bench) controlPlane(ctx context.Context) error {
	var served []time.Duration
	for range b.runs {
		s, err := b.exec(ctx, "cold", "--nodes", "0")
		if err != nil {
			return err
		}
		took, err := s.served(ctx)
		if err := errors.Join(err, s.end(ctx)); err != nil {
			return err
		}
		served = append(served, took)
	}
	b.seconds("control plane: exec to /readyz and default ServiceAccount", "under 1 s, at most 1.5 s", served)
	return nil
}

// withNode measures cold starts of a whole cluster.
func (b *bench) withNode(ctx context.Context) error {
	var served, ready []time.Duration
	for range b.runs {
		s, err := b.exec(ctx, "node")
		if err != nil {
			return err
		}
		first, err := s.served(ctx)
		if err == nil {
			served = append(served, first)
			var second time.Duration
			second, err = s.nodeReady(ctx)
			ready = append(ready, second)
		}
		if err := errors.Join(err, s.end(ctx)); err != nil {
			return err
		}
	}
	b.seconds("whole cluster: exec to /readyz and default ServiceAccount", "under 1 s, at most 1.5 s", served)
	b.seconds("whole cluster: exec to node Ready", "under 3 s", ready)
	return nil
}
