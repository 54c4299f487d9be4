// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package balancedallocation prefers nodes whose resources the pod brings closer
// to the same share of use. Touch it when balance is measured in another way.
package balancedallocation

import (
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin.
const Name = "NodeResourcesBalancedAllocation"

// BalancedAllocation is the plugin.
type BalancedAllocation struct {
	resources []corev1.ResourceName
}

var (
	_ fwk.PreScorePlugin  = (*BalancedAllocation)(nil)
	_ fwk.ScorePlugin     = (*BalancedAllocation)(nil)
	_ framework.NodeLocal = (*BalancedAllocation)(nil)
)

// New returns the plugin.
func New(_ context.Context, obj runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	args, err := configuration.Args[configv1.NodeResourcesBalancedAllocationArgs](obj)
	if err != nil {
		return nil, err
	}
	b := &BalancedAllocation{}
	for _, r := range args.Resources {
		b.resources = append(b.resources, corev1.ResourceName(r.Name))
	}
	return b, nil
}

// Name returns the plugin's name.
func (*BalancedAllocation) Name() string { return Name }

// PreScore skips pods that request none of the resources: all nodes would score
// by what runs on them already, which drew best-effort pods to one node.
func (b *BalancedAllocation) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	requests := &framework.InfoOf(state, pod).Requests
	if !slices.ContainsFunc(b.resources, func(name corev1.ResourceName) bool { return framework.Amount(requests, name) > 0 }) {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score compares the balance of a node with and without the pod.
func (b *BalancedAllocation) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	used, total := node.GetRequested(), node.GetAllocatable()
	before := b.balance(used, &framework.Resource{}, total)
	after := b.balance(used, &framework.InfoOf(state, pod).Requests, total)
	const half = fwk.MaxScore / 2
	return half + (half+after-before)/2, nil
}

// AppendSignature implements framework.NodeLocal.
func (*BalancedAllocation) AppendSignature(to []byte, pod *framework.PodInfo) ([]byte, bool) {
	return pod.Requests.AppendTo(to), true
}

// ScoreExtensions implements fwk.ScorePlugin.
func (*BalancedAllocation) ScoreExtensions() fwk.ScoreExtensions { return nil }

// balance is fwk.MaxScore if the shares of use are equal and half of it if two of
// them are as different as can be (one minus their standard deviation).
func (b *BalancedAllocation) balance(used, more, total fwk.Resource) int64 {
	var room [4]float64
	shares, sum := room[:0], 0.0
	for _, name := range b.resources {
		have := framework.Amount(total, name)
		if have == 0 {
			continue
		}
		share := min(float64(framework.Amount(used, name)+framework.Amount(more, name))/float64(have), 1)
		shares, sum = append(shares, share), sum+share
	}
	deviation := 0.0
	if n := float64(len(shares)); n == 2 {
		deviation = math.Abs(shares[0]-shares[1]) / 2
	} else if n > 2 {
		for _, share := range shares {
			deviation += (share - sum/n) * (share - sum/n)
		}
		deviation = math.Sqrt(deviation / n)
	}
	return int64((1 - deviation) * float64(fwk.MaxScore))
}
