// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeports keeps pods whose host ports are taken off a node. Touch it
// when the rules on host ports change.
package nodeports

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "NodePorts"
	ErrReason = "node(s) didn't have free ports for the requested pod ports"
)

// NodePorts is the plugin.
type NodePorts struct{}

var (
	_ framework.PreFilterPlugin = (*NodePorts)(nil)
	_ framework.FilterPlugin    = (*NodePorts)(nil)
	_ framework.RequeuePlugin   = (*NodePorts)(nil)
)

// New returns the plugin.
func New(framework.Handle) (framework.Plugin, error) { return &NodePorts{}, nil }

// Name returns the plugin's name.
func (*NodePorts) Name() string { return Name }

// PreFilter skips pods without host ports.
func (*NodePorts) PreFilter(_ context.Context, _ *framework.CycleState, pod *framework.PodInfo, _ *framework.Snapshot) (sets.Set[string], *framework.Status) {
	if len(pod.Ports) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	return nil, nil
}

// Filter rejects nodes where a port is taken.
func (*NodePorts) Filter(_ context.Context, _ *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	if !Free(pod.Ports, node) {
		return framework.NewStatus(framework.Unschedulable, ErrReason)
	}
	return nil
}

// Free tells whether none of the wanted ports is taken on a node.
func Free(wanted []framework.HostPort, node *framework.NodeInfo) bool {
	for used := range node.UsedPorts {
		if slices.ContainsFunc(wanted, used.Conflicts) {
			return false
		}
	}
	return true
}

// Requeue implements framework.Plugin: a pod that held one of the ports is gone, or there is a new node.
func (*NodePorts) Requeue() []framework.Requeue {
	return []framework.Requeue{
		{
			Event: framework.ClusterEvent{Resource: framework.AssignedPod, Action: framework.Delete},
			Hint: func(_ context.Context, pod *framework.PodInfo, old, _ any) bool {
				gone := framework.AsPod(old)
				if gone == nil {
					return true
				}
				return !Free(pod.Ports, framework.NewNodeInfo(nil, gone))
			},
		},
		{Event: framework.ClusterEvent{Resource: framework.Node, Action: framework.Add}},
	}
}
