// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dynamicresources rejects pods that use resource claims (KEP-4381):
// placing them without allocating the claims would leave them stuck on a node.
// Touch it when allocation of claims is added.
package dynamicresources

import (
	"context"

	"k8s.io/apimachinery/pkg/util/sets"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "DynamicResources"
	ErrReason = "pod uses resource claims, which this scheduler does not allocate"
)

// DynamicResources is the plugin.
type DynamicResources struct{}

var (
	_ framework.PreFilterPlugin = (*DynamicResources)(nil)
	_ framework.RequeuePlugin   = (*DynamicResources)(nil)
)

// New returns the plugin.
func New(framework.Handle) (framework.Plugin, error) { return &DynamicResources{}, nil }

// Name returns the plugin's name.
func (*DynamicResources) Name() string { return Name }

// PreFilter rejects pods with claims.
func (*DynamicResources) PreFilter(_ context.Context, _ *framework.CycleState, pod *framework.PodInfo, _ *framework.Snapshot) (sets.Set[string], *framework.Status) {
	if len(pod.Pod.Spec.ResourceClaims) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, ErrReason)
}

// Requeue implements framework.Plugin: nothing helps, spec.resourceClaims is immutable.
func (*DynamicResources) Requeue() []framework.Requeue { return nil }
