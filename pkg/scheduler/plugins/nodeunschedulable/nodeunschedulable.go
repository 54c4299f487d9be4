// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeunschedulable keeps pods off cordoned nodes (spec.unschedulable),
// unless they tolerate the taint that stands for it. Touch it when cordon
// changes its meaning.
package nodeunschedulable

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "NodeUnschedulable"
	ErrReason = "node(s) were unschedulable"
)

// NodeUnschedulable is the plugin.
type NodeUnschedulable struct{}

var (
	_ framework.FilterPlugin  = (*NodeUnschedulable)(nil)
	_ framework.RequeuePlugin = (*NodeUnschedulable)(nil)
)

// New returns the plugin.
func New(framework.Handle) (framework.Plugin, error) { return &NodeUnschedulable{}, nil }

// Name returns the plugin's name.
func (*NodeUnschedulable) Name() string { return Name }

// Filter rejects cordoned nodes.
func (*NodeUnschedulable) Filter(ctx context.Context, _ *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	if !allows(ctx, pod.Pod, node.Node) {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, ErrReason)
	}
	return nil
}

func allows(ctx context.Context, pod *corev1.Pod, node *corev1.Node) bool {
	if !node.Spec.Unschedulable {
		return true
	}
	return schedulinghelper.TolerationsTolerateTaint(klog.FromContext(ctx), pod.Spec.Tolerations,
		&corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, true)
}

// Requeue implements framework.Plugin: a node that allows the pod now, or a toleration added to the pod.
func (*NodeUnschedulable) Requeue() []framework.Requeue {
	return []framework.Requeue{
		{
			Event: framework.ClusterEvent{Resource: framework.Node, Action: framework.Add | framework.UpdateTaints},
			Hint: func(ctx context.Context, pod *framework.PodInfo, _, new any) bool {
				node := framework.AsNode(new)
				return node == nil || allows(ctx, pod.Pod, node)
			},
		},
		{Event: framework.ClusterEvent{Resource: framework.PendingPod, Action: framework.UpdateTolerations}},
	}
}
