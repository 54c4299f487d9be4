// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package schedulinggates holds back pods whose spec.schedulingGates is not
// empty (KEP-3521). Touch it when gates get another meaning.
package schedulinggates

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin.
const Name = "SchedulingGates"

// SchedulingGates is the plugin.
type SchedulingGates struct{}

var (
	_ fwk.PreEnqueuePlugin  = (*SchedulingGates)(nil)
	_ fwk.EnqueueExtensions = (*SchedulingGates)(nil)
)

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &SchedulingGates{}, nil
}

// Name returns the plugin's name.
func (*SchedulingGates) Name() string { return Name }

// PreEnqueue refuses a pod that has gates.
func (*SchedulingGates) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if len(pod.Spec.SchedulingGates) == 0 {
		return nil
	}
	gates := make([]string, 0, len(pod.Spec.SchedulingGates))
	for _, g := range pod.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("waiting for scheduling gates: %v", gates))
}

// EventsToRegister implements fwk.EnqueueExtensions: only the removal of a gate helps.
func (*SchedulingGates) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{framework.Event(fwk.TargetPod, fwk.UpdatePodSchedulingGatesEliminated, nil)}, nil
}
