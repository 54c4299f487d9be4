// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package noderesources keeps pods off nodes that lack the requested resources
// and prefers the emptier ones (LeastAllocated). Touch it when a resource is
// accounted in another way.
package noderesources

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin.
const Name = "NodeResourcesFit"

// Fit is the plugin.
type Fit struct{}

var (
	_ framework.FilterPlugin  = (*Fit)(nil)
	_ framework.ScorePlugin   = (*Fit)(nil)
	_ framework.RequeuePlugin = (*Fit)(nil)
)

// New returns the plugin.
func New(framework.Handle) (framework.Plugin, error) { return &Fit{}, nil }

// Name returns the plugin's name.
func (*Fit) Name() string { return Name }

// Filter rejects nodes that lack something. A node that would lack it even when
// empty is none where preemption helps.
func (*Fit) Filter(_ context.Context, _ *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) *framework.Status {
	lacks := Insufficient(&pod.Requests, node)
	if len(lacks) == 0 {
		return nil
	}
	code := framework.Unschedulable
	reasons := make([]string, 0, len(lacks))
	for _, l := range lacks {
		reasons = append(reasons, l.Reason)
		if l.Never {
			code = framework.UnschedulableAndUnresolvable
		}
	}
	return framework.NewStatus(code, reasons...)
}

// Lack is a resource a node has not enough of.
type Lack struct {
	Reason string
	// Never tells that the request exceeds all that the node has.
	Never bool
}

// Insufficient lists what a node lacks for a request, in a fixed order.
func Insufficient(r *framework.Resource, node *framework.NodeInfo) (lacks []Lack) {
	total, used := &node.Allocatable, &node.Requested
	if int64(len(node.Pods))+1 > total.Pods {
		lacks = append(lacks, Lack{Reason: "Too many pods"})
	}
	check := func(name corev1.ResourceName, want, have, taken int64) {
		if want > 0 && want > have-taken {
			lacks = append(lacks, Lack{Reason: fmt.Sprintf("Insufficient %s", name), Never: want > have})
		}
	}
	check(corev1.ResourceCPU, r.MilliCPU, total.MilliCPU, used.MilliCPU)
	check(corev1.ResourceMemory, r.Memory, total.Memory, used.Memory)
	check(corev1.ResourceEphemeralStorage, r.EphemeralStorage, total.EphemeralStorage, used.EphemeralStorage)
	if len(r.Scalar) > 0 {
		for _, name := range slices.Sorted(maps.Keys(r.Scalar)) {
			check(name, r.Scalar[name], total.Scalar[name], used.Scalar[name])
		}
	}
	return lacks
}

// Score is the mean of the free shares of CPU and memory once the pod runs.
func (*Fit) Score(_ context.Context, _ *framework.CycleState, pod *framework.PodInfo, node *framework.NodeInfo) (int64, *framework.Status) {
	return LeastAllocated(&pod.NonZeroRequests, node), nil
}

// LeastAllocated scores the free shares with weight one each; a resource the
// node has none of does not count.
func LeastAllocated(r *framework.Resource, node *framework.NodeInfo) int64 {
	var sum, weights int64
	free := func(have, want int64) {
		if have == 0 {
			return
		}
		weights++
		if want < have {
			sum += (have - want) * framework.MaxNodeScore / have
		}
	}
	free(node.Allocatable.MilliCPU, node.NonZeroRequested.MilliCPU+r.MilliCPU)
	free(node.Allocatable.Memory, node.NonZeroRequested.Memory+r.Memory)
	if weights == 0 {
		return 0
	}
	return sum / weights
}

// Requeue implements framework.Plugin: resources were freed, the pod asks for less, or a node has room that
// an empty node would have.
func (*Fit) Requeue() []framework.Requeue {
	return []framework.Requeue{
		{Event: framework.ClusterEvent{Resource: framework.AssignedPod, Action: framework.Delete | framework.UpdateScaleDown}},
		{Event: framework.ClusterEvent{Resource: framework.PendingPod, Action: framework.UpdateScaleDown}},
		{
			Event: framework.ClusterEvent{Resource: framework.Node, Action: framework.Add | framework.UpdateAllocatable},
			Hint: func(_ context.Context, pod *framework.PodInfo, _, new any) bool {
				node := framework.AsNode(new)
				return node == nil || len(Insufficient(&pod.Requests, framework.NewNodeInfo(node))) == 0
			},
		},
	}
}
