// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/bench/figure"
	"minik8s.io/minik8s/test/e2e/cluster"
	"minik8s.io/minik8s/test/program"
)

// server is a cluster in the foreground of a program that is measured from its exec on.
type server struct {
	cluster.Cluster
	program *program.Program
	client  kubernetes.Interface
}

// exec starts a cluster of a binary with an empty data directory.
func (b *bench) exec(side figure.Side, name string, args ...string) (*server, error) {
	binary := b.ours
	if side == figure.Plain {
		binary = b.plain
	}
	s := &server{Cluster: cluster.Cluster{Binary: binary, Name: "bench-" + name, DataDir: filepath.Join(b.dir, name)}}
	var err error
	s.program, err = program.Start(b.dir, binary, "minik8s", append([]string{"server", "--name", s.Name, "--data-dir", s.DataDir}, args...)...)
	return s, err
}

// end stops the program and removes all of the cluster.
func (s *server) end(ctx context.Context) error {
	s.program.Stop()
	return s.Down(context.WithoutCancel(ctx), "--purge")
}

// until asks every two milliseconds until check returns nil, and returns the time since the exec.
func (s *server) until(ctx context.Context, check func(context.Context) error) (time.Duration, error) {
	err := s.program.Await(ctx, 2*time.Millisecond, check)
	return time.Since(s.program.Started), err
}

// served waits until /readyz is ok and the default ServiceAccount is there.
func (s *server) served(ctx context.Context) (time.Duration, error) {
	kubeconfig := filepath.Join(s.DataDir, "kubeconfig")
	if _, err := s.until(ctx, func(context.Context) error { _, err := os.Stat(kubeconfig); return err }); err != nil {
		return 0, err
	}
	var err error
	if _, s.client, err = cluster.Client(kubeconfig); err != nil {
		return 0, err
	}
	return s.until(ctx, func(ctx context.Context) error {
		if _, err := s.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
			return err
		}
		_, err := s.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// nodeReady waits for the node.
func (s *server) nodeReady(ctx context.Context) (time.Duration, error) {
	return s.until(ctx, func(ctx context.Context) error {
		list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, node := range list.Items {
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					return nil
				}
			}
		}
		return fmt.Errorf("none of %d nodes is Ready", len(list.Items))
	})
}

// controlPlane measures a cold start without a node.
func (b *bench) controlPlane(ctx context.Context, side figure.Side) error {
	s, err := b.exec(side, "cold", "--nodes", "0")
	if err != nil {
		return err
	}
	took, err := s.served(ctx)
	if err := errors.Join(err, s.end(ctx)); err != nil {
		return err
	}
	b.within(side, "control plane: exec to /readyz and default ServiceAccount", 1500, took)
	return nil
}

// withNode measures a cold start of a whole cluster.
func (b *bench) withNode(ctx context.Context, side figure.Side) error {
	s, err := b.exec(side, "node")
	if err != nil {
		return err
	}
	served, err := s.served(ctx)
	var ready time.Duration
	if err == nil {
		ready, err = s.nodeReady(ctx)
	}
	if err := errors.Join(err, s.end(ctx)); err != nil {
		return err
	}
	b.within(side, "whole cluster: exec to /readyz and default ServiceAccount", 1500, served)
	b.within(side, "whole cluster: exec to node Ready", 3000, ready)
	return nil
}
