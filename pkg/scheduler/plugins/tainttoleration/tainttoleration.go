// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package tainttoleration keeps pods off nodes whose NoSchedule and NoExecute
// taints they do not tolerate, and prefers nodes without PreferNoSchedule taints.
// Touch it when a taint effect is added.
package tainttoleration

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
	Name      = "TaintToleration"
	ErrReason = "node(s) had untolerated taint(s)"
)

// TaintToleration is the plugin.
type TaintToleration struct{}

var (
	_ fwk.FilterPlugin      = (*TaintToleration)(nil)
	_ fwk.ScorePlugin       = (*TaintToleration)(nil)
	_ fwk.EnqueueExtensions = (*TaintToleration)(nil)
	_ framework.NodeLocal   = (*TaintToleration)(nil)
)

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &TaintToleration{}, nil
}

// Name returns the plugin's name.
func (*TaintToleration) Name() string { return Name }

// Filter rejects nodes with a hard taint that is not tolerated.
func (*TaintToleration) Filter(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if !Tolerates(ctx, pod, node.Node()) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReason)
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
func (*TaintToleration) Score(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	var count int64
	for i := range node.Node().Spec.Taints {
		t := &node.Node().Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule && !schedulinghelper.TolerationsTolerateTaint(klog.FromContext(ctx), pod.Spec.Tolerations, t, true) {
			count++
		}
	}
	return count, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (t *TaintToleration) ScoreExtensions() fwk.ScoreExtensions { return t }

// NormalizeScore makes fewer taints score higher.
func (*TaintToleration) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	framework.NormalizeReverse(scores)
	return nil
}

// AppendSignature implements framework.NodeLocal.
func (*TaintToleration) AppendSignature(to []byte, pod *framework.PodInfo) ([]byte, bool) {
	return framework.AppendTolerations(to, pod)
}

// EventsToRegister implements fwk.EnqueueExtensions: a node whose taints are tolerated now, and were not before, or a
// toleration added to the pod.
func (*TaintToleration) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.Node, fwk.Add|fwk.UpdateNodeTaint, framework.Hint(func(pod *corev1.Pod, old, new any) bool {
			before, after := framework.AsNode(old), framework.AsNode(new)
			return after == nil || Tolerates(ctx, pod, after) && (before == nil || !Tolerates(ctx, pod, before))
		})),
		framework.Event(fwk.TargetPod, fwk.UpdatePodToleration, nil),
	}, nil
}
