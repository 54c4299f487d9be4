// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package defaultbinder binds pods through the API. Touch it when a Binding is to
// say more.
package defaultbinder

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name of the plugin.
const Name = "DefaultBinder"

// timeout bounds the request.
const timeout = 30 * time.Second

// DefaultBinder is the plugin.
type DefaultBinder struct {
	client kubernetes.Interface
}

var _ fwk.BindPlugin = (*DefaultBinder)(nil)

// New returns the plugin.
func New(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &DefaultBinder{client: h.ClientSet()}, nil
}

// Name returns the plugin's name.
func (*DefaultBinder) Name() string { return Name }

// Bind writes the Binding. A failure does not tell that the pod is not bound: an
// answer can get lost.
func (b *DefaultBinder) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// The UID keeps the binding off a new pod of the same name.
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	return fwk.AsStatus(b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}))
}
