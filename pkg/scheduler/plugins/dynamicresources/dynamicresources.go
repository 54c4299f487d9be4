// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dynamicresources gives devices to the resource claims of pods (KEP-4381): it finds nodes where all claims of a pod can
// have theirs, and writes down what they got before the pod is bound. Touch it when claims constrain placement in a new way;
// which device is chosen is upstream's published allocator's.
//
//	PreEnqueue, PreFilter ─► the pod's claims are there, and those with devices say where
//	Filter ─► the others get devices on each node ─► Score prefers the nodes with those that are asked for first
//	Reserve ─► those of the chosen node are taken for everybody ─► PreBind writes them
package dynamicresources

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/configuration"
	"minik8s.io/minik8s/pkg/scheduler/framework"
	"minik8s.io/minik8s/pkg/scheduler/internal/dra"
	"minik8s.io/minik8s/pkg/scheduler/internal/metrics"
)

const (
	// Name of the plugin.
	Name = "DynamicResources"

	// requestTimeout bounds a request to the API server.
	requestTimeout = 30 * time.Second
	// compiled is how many CEL expressions are kept for other pods.
	compiled = 10
)

// features are those whose gates are on by default in 1.37.
var features = structured.Features{
	AdminAccess:             true,
	ConsumableCapacity:      true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

// DynamicResources is the plugin.
type DynamicResources struct {
	handle fwk.Handle
	dra    fwk.SharedDRAManager
	// made finds the claim that was made for the extended resources of a pod.
	made   func(types.UID) *resourcev1.ResourceClaim
	memory *memory
	count  *metrics.Metrics
	cel    *cel.Cache
	// filterTimeout bounds the search for devices on one node, bindingTimeout the wait for devices that are to be prepared before
	// the pod is bound.
	filterTimeout, bindingTimeout time.Duration
}

var (
	_ fwk.PreEnqueuePlugin  = (*DynamicResources)(nil)
	_ fwk.PreFilterPlugin   = (*DynamicResources)(nil)
	_ fwk.FilterPlugin      = (*DynamicResources)(nil)
	_ fwk.PostFilterPlugin  = (*DynamicResources)(nil)
	_ fwk.PreScorePlugin    = (*DynamicResources)(nil)
	_ fwk.ScorePlugin       = (*DynamicResources)(nil)
	_ fwk.ReservePlugin     = (*DynamicResources)(nil)
	_ fwk.PreBindPlugin     = (*DynamicResources)(nil)
	_ fwk.EnqueueExtensions = (*DynamicResources)(nil)
	_ fwk.SignPlugin        = (*DynamicResources)(nil)
)

// New returns the plugin.
func New(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := configuration.Args[configv1.DynamicResourcesArgs](obj)
	if err != nil {
		return nil, err
	}
	manager, ok := h.SharedDRAManager().(*dra.Manager)
	if !ok {
		return nil, fmt.Errorf("the claims are not this scheduler's but a %T", h.SharedDRAManager())
	}
	claims := manager.Known()
	return &DynamicResources{
		handle:         h,
		dra:            manager,
		made:           claims.Extended,
		memory:         newMemory(manager, claims),
		count:          framework.CountsOf(h),
		cel:            cel.NewCache(compiled, cel.Features{EnableConsumableCapacity: features.ConsumableCapacity, EnableListTypeAttributes: features.ListTypeAttributes}),
		filterTimeout:  args.FilterTimeout.Duration,
		bindingTimeout: args.BindingTimeout.Duration,
	}, nil
}

// Name returns the plugin's name.
func (*DynamicResources) Name() string { return Name }

// SignPod implements fwk.SignPlugin: where claims of a pod can have devices depends on more than the pod.
func (*DynamicResources) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if len(pod.Spec.ResourceClaims) > 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with dra resource claims are not signable")
	}
	return nil, nil
}

// PreEnqueue holds a pod back until its claims are there.
func (pl *DynamicResources) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if _, err := pl.claimsOf(pod); err != nil {
		return reject("%v", err)
	}
	return nil
}

func reject(format string, args ...any) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf(format, args...))
}

// claimsOf returns the claims that users asked for, or says why the pod has to wait for them. Of an entry of the pod for which
// intentionally no claim was made there is none.
func (pl *DynamicResources) claimsOf(pod *corev1.Pod) ([]*resourcev1.ResourceClaim, error) {
	claims := make([]*resourcev1.ResourceClaim, 0, len(pod.Spec.ResourceClaims))
	for i := range pod.Spec.ResourceClaims {
		name, own, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue
		}
		claim, err := pl.dra.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return nil, err
		}
		if claim.DeletionTimestamp != nil {
			return nil, fmt.Errorf("resourceclaim %q is being deleted", claim.Name)
		}
		if own {
			if err := resourceclaim.IsForPod(pod, claim, false); err != nil {
				return nil, err
			}
		}
		claims = append(claims, claim)
	}
	return claims, nil
}
