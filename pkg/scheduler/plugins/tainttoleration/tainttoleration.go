// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package tainttoleration keeps pods off nodes whose NoSchedule and NoExecute
// taints they do not tolerate, and prefers nodes without PreferNoSchedule taints.
// Touch it when a taint effect is added.
package tainttoleration

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "TaintToleration"
	ErrReason = "node(s) had untolerated taint(s)"
)

// TaintToleration is the plugin.
type TaintToleration struct{}

var (
	_ framework.FilterPlugin    = (*TaintToleration)(nil)
	_ framework.NormalizePlugin = (*TaintToleration)(nil)
	_ framework.RequeuePlugin   = (*TaintToleration)(nil)
)

// New returns the plugin.
func New(framework.Handle) (framework.Plugin, error) { return &TaintToleration{}, nil }

// Name returns the plugin's name.
func (*TaintToleration) Name() string { return Name }

// Filter rejects nodes with a hard taint that is not tolerated.
func (*TaintToleration) Filter(ctx context.Context, _ *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	if !Tolerates(ctx, pod.Pod, node.Node) {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, ErrReason)
	}
	return nil
}

// Tolerates tells whether a pod tolerates all NoSchedule and NoExecute taints of a node.
func Tolerates(ctx context.Context, pod *corev1.Pod, node *corev1.Node) bool {
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		if !schedulinghelper.TolerationsTolerateTaint(klog.FromContext(ctx), pod.Spec.Tolerations, t, true) {
			return false
		}
	}
	return true
}

// Score counts the soft taints that are not tolerated.
func (*TaintToleration) Score(ctx context.Context, _ *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) (int64, *framework.Status) {
	var count int64
	for i := range node.Node.Spec.Taints {
		t := &node.Node.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule && !schedulinghelper.TolerationsTolerateTaint(klog.FromContext(ctx), pod.Pod.Spec.Tolerations, t, true) {
			count++
		}
	}
	return count, nil
}

// NormalizeScore makes fewer taints score higher.
func (*TaintToleration) NormalizeScore(_ context.Context, _ *framework.CycleState, _ *framework.PodInfo, scores []framework.NodeScore) *framework.Status {
	framework.NormalizeReverse(scores)
	return nil
}

// Requeue implements framework.Plugin: a node whose taints are tolerated now, or a toleration added to the pod.
func (*TaintToleration) Requeue() []framework.Requeue {
	return []framework.Requeue{
		{
			Event: framework.ClusterEvent{Resource: framework.Node, Action: framework.Add | framework.UpdateTaints},
			Hint: func(ctx context.Context, pod *framework.PodInfo, _, new any) bool {
				node := framework.AsNode(new)
				return node == nil || Tolerates(ctx, pod.Pod, node)
			},
		},
		{Event: framework.ClusterEvent{Resource: framework.PendingPod, Action: framework.UpdateTolerations}},
	}
}
