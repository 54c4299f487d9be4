//go:build vm

// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package vm is what the virtual machine of make e2e-vm proves: limits and measurements on cgroup v2 with systemd, and that a
// cluster is back after the machine was rebooted or lost its power. Touch it for what needs another kernel, another engine or a
// boot; what needs neither is in test/e2e. Each test is started by the script guest, in an order that matters.
package vm

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/e2e/cluster"
)

const (
	web   = "minik8s.io/guestbook-frontend:1"
	store = "minik8s.io/guestbook-store:1"
	eater = "minik8s.test/eater:1"

	// patience is for an emulated processor.
	patience = 10 * time.Minute
)

// machine is the cluster that all tests share, through all boots.
type machine struct {
	*testing.T
	cluster.Cluster
	client kubernetes.Interface
}

func the(t *testing.T) machine {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	return machine{T: t, Cluster: cluster.Cluster{Binary: filepath.Join(root, "bin/minik8s"), Name: "vm"}}
}

// up starts the cluster, which may be up.
func up(t *testing.T, args ...string) machine {
	t.Helper()
	m := the(t)
	begin := time.Now()
	u, err := m.Up(t.Context(), append(args, "--timeout", patience.String())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up after %s", time.Since(begin).Round(time.Second))
	if _, m.client, err = cluster.Client(u.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return m
}

// eventually calls check until it succeeds.
func (m machine) eventually(what string, check func(context.Context) error) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last := errors.New("never asked")
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			m.Fatalf("not within %s: %s: %v", patience, what, last)
		case <-ticker.C:
		}
	}
}

// pod is one with a container "c" that ends a second after it is told to.
func pod(name, image string, command ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}}
	p.Spec.TerminationGracePeriodSeconds = new(int64(1))
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: image, Command: command}}
	return p
}

func webPod(name string) *corev1.Pod { return pod(name, web, "/guestbook", "static", "/") }

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func (m machine) create(pods ...*corev1.Pod) {
	m.Helper()
	m.eventually("the default ServiceAccount", func(ctx context.Context) error {
		_, err := m.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	for _, p := range pods {
		if _, err := m.client.CoreV1().Pods("default").Create(m.Context(), p, metav1.CreateOptions{}); err != nil {
			m.Fatal(err)
		}
	}
}

// await waits until a pod is as ok wants it.
func (m machine) await(what, name string, ok func(*corev1.Pod) error) *corev1.Pod {
	m.Helper()
	var found *corev1.Pod
	m.eventually(name+" "+what, func(ctx context.Context) error {
		p, err := m.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			err = ok(p)
		}
		found = p
		return err
	})
	return found
}

// running says why a pod is not Ready, nil if it is.
func running(p *corev1.Pod) error {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New(p.Status.String())
}
