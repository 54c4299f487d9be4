// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodeunschedulable keeps pods off cordoned nodes (spec.unschedulable),
// unless they tolerate the taint that stands for it. Touch it when cordon
// changes its meaning.
package nodeunschedulable

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

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
	_ fwk.FilterPlugin      = (*NodeUnschedulable)(nil)
	_ fwk.EnqueueExtensions = (*NodeUnschedulable)(nil)
	_ framework.NodeLocal   = (*NodeUnschedulable)(nil)
)

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &NodeUnschedulable{}, nil
}

// Name returns the plugin's name.
func (*NodeUnschedulable) Name() string { return Name }

// Filter rejects cordoned nodes.
func (*NodeUnschedulable) Filter(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if !allows(ctx, pod, node.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReason)
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

// AppendSignature implements framework.NodeLocal.
func (*NodeUnschedulable) AppendSignature(to []byte, pod *framework.PodInfo) ([]byte, bool) {
	return framework.AppendTolerations(to, pod)
}

// EventsToRegister implements fwk.EnqueueExtensions: a node that allows the pod now, and did not before, or a
// toleration added to the pod.
func (*NodeUnschedulable) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.Node, fwk.Add|fwk.UpdateNodeTaint, framework.Hint(func(pod *corev1.Pod, old, new any) bool {
			before, after := framework.AsNode(old), framework.AsNode(new)
			return after == nil || allows(ctx, pod, after) && (before == nil || !allows(ctx, pod, before))
		})),
		framework.Event(fwk.TargetPod, fwk.UpdatePodToleration, nil),
	}, nil
}
