// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodename keeps a pod that names its node off all others. Touch it
// hardly ever: the API server sends most of such pods past the scheduler.
package nodename

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "NodeName"
	ErrReason = "node(s) didn't match the requested node name"
)

// NodeName is the plugin.
type NodeName struct{}

var (
	_ fwk.FilterPlugin      = (*NodeName)(nil)
	_ fwk.EnqueueExtensions = (*NodeName)(nil)
	_ framework.NodeLocal   = (*NodeName)(nil)
)

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &NodeName{}, nil }

// Name returns the plugin's name.
func (*NodeName) Name() string { return Name }

// Filter rejects all nodes but the requested one.
func (*NodeName) Filter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if want := pod.Spec.NodeName; want != "" && want != node.Node().Name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReason)
	}
	return nil
}

// AppendSignature implements framework.NodeLocal.
func (*NodeName) AppendSignature(to []byte, pod *framework.PodInfo) ([]byte, bool) {
	return append(to, pod.Pod.Spec.NodeName...), true
}

// EventsToRegister implements fwk.EnqueueExtensions: a new node may be the requested one.
func (*NodeName) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{framework.Event(fwk.Node, fwk.Add, nil)}, nil
}
