// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodename keeps a pod that names its node off all others. Touch it
// hardly ever: the API server sends most of such pods past the scheduler.
package nodename

import (
	"context"

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
	_ framework.FilterPlugin  = (*NodeName)(nil)
	_ framework.RequeuePlugin = (*NodeName)(nil)
)

// New returns the plugin.
func New(framework.Handle) (framework.Plugin, error) { return &NodeName{}, nil }

// Name returns the plugin's name.
func (*NodeName) Name() string { return Name }

// Filter rejects all nodes but the requested one.
func (*NodeName) Filter(_ context.Context, _ *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	if want := pod.Pod.Spec.NodeName; want != "" && want != node.Name() {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, ErrReason)
	}
	return nil
}

// Requeue implements framework.Plugin: a new node may be the requested one.
func (*NodeName) Requeue() []framework.Requeue {
	return []framework.Requeue{{Event: framework.ClusterEvent{Resource: framework.Node, Action: framework.Add}}}
}
