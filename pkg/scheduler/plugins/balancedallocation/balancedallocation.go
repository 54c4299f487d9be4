// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package balancedallocation prefers nodes whose CPU and memory the pod brings
// closer to the same share of use. Touch it when more resources are to be balanced.
package balancedallocation

import (
	"context"
	"math"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin.
const Name = "NodeResourcesBalancedAllocation"

// BalancedAllocation is the plugin.
type BalancedAllocation struct{}

var (
	_ framework.PreScorePlugin = (*BalancedAllocation)(nil)
	_ framework.ScorePlugin    = (*BalancedAllocation)(nil)
)

// New returns the plugin.
func New(framework.Handle) (framework.Plugin, error) { return &BalancedAllocation{}, nil }

// Name returns the plugin's name.
func (*BalancedAllocation) Name() string { return Name }

// PreScore skips pods that request neither CPU nor memory: all nodes would
// score by what runs on them already, which drew best-effort pods to one node.
func (*BalancedAllocation) PreScore(_ context.Context, _ *framework.CycleState, pod *framework.PodInfo, _ []*framework.NodeInfo) *framework.Status {
	if pod.Requests.MilliCPU == 0 && pod.Requests.Memory == 0 {
		return framework.NewStatus(framework.Skip)
	}
	return nil
}

// Score compares the balance of a node with and without the pod.
func (*BalancedAllocation) Score(_ context.Context, _ *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) (int64, *framework.Status) {
	before := balance(&node.Requested, &framework.Resource{}, &node.Allocatable)
	after := balance(&node.Requested, &pod.Requests, &node.Allocatable)
	const half = framework.MaxNodeScore / 2
	return half + (half+after-before)/2, nil
}

// balance is MaxNodeScore if the shares of use are equal and half of it if they
// are as different as can be (one minus their standard deviation).
func balance(used, more, total *framework.Resource) int64 {
	share := func(u, m, t int64) (float64, bool) {
		if t == 0 {
			return 0, false
		}
		return min(float64(u+m)/float64(t), 1), true
	}
	cpu, hasCPU := share(used.MilliCPU, more.MilliCPU, total.MilliCPU)
	memory, hasMemory := share(used.Memory, more.Memory, total.Memory)
	deviation := 0.0
	if hasCPU && hasMemory {
		deviation = math.Abs(cpu-memory) / 2
	}
	return int64((1 - deviation) * float64(framework.MaxNodeScore))
}
