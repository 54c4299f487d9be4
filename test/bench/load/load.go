// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package load is what the clients of benches send to API servers. Touch it when all benches are to send something else.
package load

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// Each calls f for 0 to n-1 from all clients at the same time, and returns how long that took.
func Each(ctx context.Context, clients []kubernetes.Interface, n int, f func(ctx context.Context, c kubernetes.Interface, i int) error) (time.Duration, error) {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for _, c := range clients {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := f(ctx, c, i); err != nil {
					return err
				}
			}
		})
	}
	err := g.Wait()
	return time.Since(begin), err
}

// Pod is as those of a Deployment are.
func Pod(name string) *corev1.Pod {
	resources := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench", "pod-template-hash": "5d4f8c7b9d"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "registry.example/app:1.0", Args: []string{"serve", "--port=8080"},
			Env:            []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
			Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			Resources:      resources,
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}},
		}}},
	}
}
