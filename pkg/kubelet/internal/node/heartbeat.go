// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// heartbeats is a client whose calls about the Node and its lease end after a time, as those of upstream's heartbeat client: an answer
// that is lost must not keep back the next sign of life, for the pods of a node that gives none are not ready.
type heartbeats struct {
	kubernetes.Interface
	patience time.Duration
}

func (h heartbeats) CoreV1() typedcorev1.CoreV1Interface {
	return core{h.Interface.CoreV1(), h.patience}
}

func (h heartbeats) CoordinationV1() typedcoordinationv1.CoordinationV1Interface {
	return coordination{h.Interface.CoordinationV1(), h.patience}
}

type core struct {
	typedcorev1.CoreV1Interface
	patience time.Duration
}

func (c core) Nodes() typedcorev1.NodeInterface { return nodes{c.CoreV1Interface.Nodes(), c.patience} }

type coordination struct {
	typedcoordinationv1.CoordinationV1Interface
	patience time.Duration
}

func (c coordination) Leases(namespace string) typedcoordinationv1.LeaseInterface {
	return leases{c.CoordinationV1Interface.Leases(namespace), c.patience}
}

type nodes struct {
	typedcorev1.NodeInterface
	patience time.Duration
}

func (n nodes) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	return n.NodeInterface.Get(ctx, name, o)
}

func (n nodes) Create(ctx context.Context, node *corev1.Node, o metav1.CreateOptions) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	return n.NodeInterface.Create(ctx, node, o)
}

func (n nodes) Update(ctx context.Context, node *corev1.Node, o metav1.UpdateOptions) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	return n.NodeInterface.Update(ctx, node, o)
}

func (n nodes) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	return n.NodeInterface.Patch(ctx, name, kind, data, o, subresources...)
}

type leases struct {
	typedcoordinationv1.LeaseInterface
	patience time.Duration
}

func (l leases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	return l.LeaseInterface.Get(ctx, name, o)
}

func (l leases) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	return l.LeaseInterface.Create(ctx, lease, o)
}

func (l leases) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	return l.LeaseInterface.Update(ctx, lease, o)
}
