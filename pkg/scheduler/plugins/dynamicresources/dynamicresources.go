// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dynamicresources rejects pods that use resource claims (KEP-4381):
// placing them without allocating the claims would leave them stuck on a node.
// Touch it when allocation of claims is added.
package dynamicresources

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name of the plugin; ErrReason is what users see.
const (
	Name      = "DynamicResources"
	ErrReason = "pod uses resource claims, which this scheduler does not allocate"
)

// DynamicResources is the plugin.
type DynamicResources struct{}

var (
	_ fwk.PreFilterPlugin   = (*DynamicResources)(nil)
	_ fwk.EnqueueExtensions = (*DynamicResources)(nil)
)

// New returns the plugin.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &DynamicResources{}, nil
}

// Name returns the plugin's name.
func (*DynamicResources) Name() string { return Name }

// PreFilter rejects pods with claims.
func (*DynamicResources) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReason)
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (*DynamicResources) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// EventsToRegister implements fwk.EnqueueExtensions: nothing helps, spec.resourceClaims is immutable.
func (*DynamicResources) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return nil, nil
}
