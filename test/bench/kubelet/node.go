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

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/bench/alone"
	"minik8s.io/minik8s/test/e2e/cluster"
	"minik8s.io/minik8s/test/program"
)

// node is a cluster in the foreground, with a node or without.
type node struct {
	cluster.Cluster
	image   string
	program *program.Program
	client  kubernetes.Interface
	// name is that of the node that pods are bound to.
	name string
}

// roomy is the configuration of a cluster whose node takes more pods than 110, and has an address for each.
const roomy = `apiVersion: minik8s.io/v1alpha1
kind: Cluster
networking: {podSubnet: 10.200.0.0/16}
kubelet: {maxPods: %d, podCIDR: 10.200.0.0/20}
`

// startNode starts a cluster and waits for its node, or for its control plane if the arguments ask for no node.
func (b *bench) startNode(ctx context.Context, name string, args ...string) (_ *node, err error) {
	c := cluster.Cluster{Binary: b.minik8s, Name: "bench-" + name, DataDir: filepath.Join(b.dir, name)}
	n := &node{Cluster: c, image: b.image}
	config := filepath.Join(b.dir, "cluster.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, roomy, b.many+10), 0o600); err != nil {
		return nil, err
	}
	n.program, err = program.Start(b.dir, b.minik8s, "minik8s",
		append([]string{"server", "--name", n.Name, "--data-dir", n.DataDir, "--config", config}, args...)...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.end(ctx))
		}
	}()
	kubeconfig := filepath.Join(n.DataDir, "kubeconfig")
	if err := n.await(ctx, func(context.Context) error { _, err := os.Stat(kubeconfig); return err }); err != nil {
		return nil, err
	}
	if _, n.client, err = cluster.Client(kubeconfig); err != nil {
		return nil, err
	}
	return n, n.await(ctx, func(ctx context.Context) error {
		_, err := n.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		if err != nil || len(args) > 0 {
			return err
		}
		return n.ready(ctx)
	})
}

func (n *node) await(ctx context.Context, check func(context.Context) error) error {
	return n.program.Await(ctx, 10*time.Millisecond, check)
}

// end stops the program and removes all of the cluster.
func (n *node) end(ctx context.Context) error {
	n.program.Stop()
	return n.Down(context.WithoutCancel(ctx), "--purge")
}

func (n *node) ready(ctx context.Context) error {
	list, err := n.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, found := range list.Items {
		for _, c := range found.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				n.name = found.Name
				return nil
			}
		}
	}
	return fmt.Errorf("none of %d nodes is Ready", len(list.Items))
}

// group is the label of pods that belong together.
const group = "run"

// pods are those of a group: bound already, for what a scheduler takes is not what is measured here.
func (n *node) pods(name string, count int) []*corev1.Pod {
	all := make([]*corev1.Pod, count)
	for i := range all {
		all[i] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{group: name}},
			Spec: corev1.PodSpec{NodeName: n.name, RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "c", Image: n.image, Args: []string{"static", "/"}}}},
		}
	}
	return all
}

// starts creates pods of a group, as many at a time as clients of the API have, and returns when the API says that all run.
func (n *node) starts(ctx context.Context, name string, count int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	api := n.client.CoreV1().Pods("default")
	w, err := api.Watch(ctx, metav1.ListOptions{LabelSelector: group + "=" + name})
	if err != nil {
		return err
	}
	defer w.Stop()
	var creations errgroup.Group
	creations.SetLimit(16)
	go func() {
		for _, p := range n.pods(name, count) {
			creations.Go(func() error {
				_, err := api.Create(ctx, p, metav1.CreateOptions{})
				if err != nil {
					cancel()
				}
				return err
			})
		}
	}()
	running := map[string]bool{}
	for len(running) < count {
		e, ok := <-w.ResultChan()
		if !ok {
			return fmt.Errorf("%d of %d pods run: %w", len(running), count, errors.Join(creations.Wait(), context.Cause(ctx)))
		}
		p, ok := e.Object.(*corev1.Pod)
		if ok && p.Status.Phase == corev1.PodFailed {
			return fmt.Errorf("pod %s: %s: %s", p.Name, p.Status.Reason, p.Status.Message)
		}
		if ok && e.Type != watch.Deleted && p.Status.Phase == corev1.PodRunning {
			running[p.Name] = true
		}
	}
	return creations.Wait()
}

// stops deletes the pods of a group without grace, and returns when the engine has nothing of them.
func (n *node) stops(ctx context.Context, e *alone.Engine, name string, count int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	// Docker answers before it has subscribed; to ask for what is since now closes the gap.
	gone, failed := e.Events(ctx, events.ListOptions{Since: time.Now().Format(time.RFC3339Nano), Filters: filters.NewArgs(
		filters.Arg("label", "minik8s.io/cluster="+n.Name), filters.Arg("event", string(events.ActionDestroy)))})
	err := n.client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)},
		metav1.ListOptions{LabelSelector: group + "=" + name})
	if err != nil {
		return err
	}
	look := time.NewTicker(silence)
	defer look.Stop()
	for left := 2 * count; left > 0; {
		select {
		case <-gone:
			left--
			look.Reset(silence)
		case <-look.C: // an event may be lost
			if left, err = e.Left(ctx, n.Name, name+"-"); err != nil {
				return err
			}
		case err := <-failed:
			return fmt.Errorf("%d containers are left: %w", left, err)
		}
	}
	return nil
}

// silence is how long no event comes until the engine is asked. To ask costs it something, which is measured too.
const silence = 500 * time.Millisecond
