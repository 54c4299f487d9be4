// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package leastpod prefers the node with the fewest pods. Touch it when other pods
// are to count.
package leastpod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/policies/internal/ranking"
)

// Name of the plugin.
const Name = "LeastPod"

// LeastPod is the plugin.
type LeastPod struct{}

var _ fwk.ScorePlugin = LeastPod{}

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return LeastPod{}, nil }

// Name returns the plugin's name.
func (LeastPod) Name() string { return Name }

// Score counts the pods of a node that have not ended, those included that are not
// bound yet.
func (LeastPod) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return int64(len(node.GetPods())), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (l LeastPod) ScoreExtensions() fwk.ScoreExtensions { return l }

// NormalizeScore implements fwk.ScoreExtensions.
func (LeastPod) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	ranking.Lowest(scores)
	return nil
}
