// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllers tests the controllers against a real API server: what only shows when several of them, the scheduler
// and nodes work on the same objects.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"minik8s.io/minik8s/test/integration/framework"
)

// cluster is shared by all tests that do not stop anything.
var cluster *framework.Cluster

// unready is an annotation that makes a running pod not ready.
const unready = "example.com/unready"

func TestMain(m *testing.M) {
	if host, ok := os.LookupEnv(apiVariable); ok {
		os.Exit(manager(host))
	}
	os.Exit(framework.Main(m, framework.Options{Controllers: []string{"*"}, Scheduler: true}, func(c *framework.Cluster) error {
		cluster = c
		for _, name := range []string{"node-a", "node-b"} {
			if _, err := c.StartNode(node(name)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// node lets pods get ready unless their image or annotation says otherwise.
func node(name string) framework.FakeNode {
	return framework.FakeNode{Name: name, Ready: func(p *corev1.Pod) bool {
		return !strings.HasPrefix(p.Spec.Containers[0].Image, "broken") && p.Annotations[unready] == ""
	}}
}

// gone waits until get answers that there is no such object.
func gone(t *testing.T, what string, get func() error) {
	t.Helper()
	framework.Eventually(t, what+" is gone", func() error {
		switch err := get(); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("it is there")
	})
}

// apply sends a JSON merge patch of a Deployment.
func apply(t *testing.T, c kubernetes.Interface, ns, name, patch string) *appsv1.Deployment {
	t.Helper()
	d, err := c.AppsV1().Deployments(ns).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("patching deployment %q: %v", name, err)
	}
	return d
}

// image is a patch that starts a rollout.
func image(name string) string {
	return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, name)
}

// rolledOut waits for the end of a rollout as kubectl rollout status does.
func rolledOut(t *testing.T, c kubernetes.Interface, ns, name string) *appsv1.Deployment {
	t.Helper()
	var d *appsv1.Deployment
	framework.Eventually(t, "rollout of "+name, func() error {
		var err error
		if d, err = c.AppsV1().Deployments(ns).Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != s.UpdatedReplicas || s.AvailableReplicas != s.UpdatedReplicas {
			return fmt.Errorf("generation %d, status %+v", d.Generation, s)
		}
		return nil
	})
	return d
}

// sizes returns the wanted replicas of a Deployment's ReplicaSets by the image of their pods.
func sizes(c kubernetes.Interface, ns string) (map[string]int32, error) {
	list, err := c.AppsV1().ReplicaSets(ns).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := map[string]int32{}
	for _, rs := range list.Items {
		found[rs.Spec.Template.Spec.Containers[0].Image] += *rs.Spec.Replicas
	}
	return found, nil
}

func activePods(c kubernetes.Interface, ns string) ([]corev1.Pod, error) {
	list, err := c.CoreV1().Pods(ns).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var active []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			active = append(active, p)
		}
	}
	return active, nil
}
