// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestStart proves the framework itself: everything starts, a pod goes through its life on a played node, and nothing is
// left behind, which the cleanup of Start checks.
func TestStart(t *testing.T) {
	begin := time.Now()
	c := Start(t, Options{Controllers: []string{"*"}, Scheduler: true})
	t.Logf("started in %v", time.Since(begin))
	ctx := t.Context()

	t.Run("pod on a played node", func(t *testing.T) {
		c.AddNode(t, FakeNode{Name: "node-a"})
		pods := c.Client.CoreV1().Pods(c.Namespace(t))
		w, err := pods.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Create(ctx, Pod("p", "p"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		got := Await(t, w, "a running pod", func(_ watch.EventType, p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
		if got.Spec.NodeName != "node-a" || got.Status.PodIP == "" {
			t.Errorf("the pod runs on %q with the address %q", got.Spec.NodeName, got.Status.PodIP)
		}
		if err := pods.Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		Eventually(t, "the pod is gone", func() error {
			_, err := pods.Get(ctx, "p", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("get answers %w", err)
		})
	})

	t.Run("identities", func(t *testing.T) {
		ns := c.Namespace(t)
		nobody := ClientFor(t, c.Anonymous())
		if _, err := nobody.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{}); err == nil {
			t.Error("someone without identity may read secrets")
		}
		account := ClientFor(t, c.ServiceAccount(t, ns, "default"))
		if _, err := account.Discovery().ServerVersion(); err != nil {
			t.Errorf("a service account's token is not accepted: %v", err)
		}
	})
}

func TestLeaks_AreFound(t *testing.T) {
	before := snapshot()
	end := make(chan struct{})
	go func() { <-end }()
	leaks := before.leaks(50 * time.Millisecond)
	if len(leaks) != 1 || !strings.Contains(leaks[0], "TestLeaks_AreFound") {
		t.Errorf("leaks are %q", leaks)
	}
	close(end)
	if leaks := before.leaks(10 * time.Second); len(leaks) != 0 {
		t.Errorf("leaks at the end are %q", leaks)
	}
}
