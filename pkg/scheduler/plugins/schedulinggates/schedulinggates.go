// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package schedulinggates holds back pods whose spec.schedulingGates is not
// empty (KEP-3521). Touch it when gates get another meaning.
package schedulinggates

import (
	"context"
	"fmt"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin.
const Name = "SchedulingGates"

// SchedulingGates is the plugin.
type SchedulingGates struct{}

var (
	_ framework.PreEnqueuePlugin = (*SchedulingGates)(nil)
	_ framework.RequeuePlugin    = (*SchedulingGates)(nil)
)

// New returns the plugin.
func New(framework.Handle) (framework.Plugin, error) { return &SchedulingGates{}, nil }

// Name returns the plugin's name.
func (*SchedulingGates) Name() string { return Name }

// PreEnqueue refuses a pod that has gates.
func (*SchedulingGates) PreEnqueue(_ context.Context, pod *framework.PodInfo) *framework.Status {
	if len(pod.Pod.Spec.SchedulingGates) == 0 {
		return nil
	}
	gates := make([]string, 0, len(pod.Pod.Spec.SchedulingGates))
	for _, g := range pod.Pod.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("waiting for scheduling gates: %v", gates))
}

// Requeue implements framework.Plugin: only the removal of a gate helps.
func (*SchedulingGates) Requeue() []framework.Requeue {
	return []framework.Requeue{{Event: framework.ClusterEvent{Resource: framework.PendingPod, Action: framework.UpdateGates}}}
}
