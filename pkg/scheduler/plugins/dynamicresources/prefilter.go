// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreFilter gathers the pod's claims and rejects the pod while one cannot be used anywhere.
func (pl *DynamicResources) PreFilter(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	claims, err := pl.claimsOf(pod)
	if err != nil {
		return nil, reject("%v", err)
	}
	s := &state{placements: map[string]*placement{}}
	for _, claim := range claims {
		s.claims = append(s.claims, podClaim{claim: claim})
	}
	if special := pl.specialClaim(cs, pod); special != nil {
		s.claims = append(s.claims, podClaim{claim: special, special: true})
	}
	if len(s.claims) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	allocate := false
	for i := range s.claims {
		c := &s.claims[i]
		allocate = allocate || c.claim.Status.Allocation == nil
		if status := pl.usable(c, pod); !status.IsSuccess() {
			return nil, status
		}
	}
	if allocate {
		if s.allocator, err = pl.newAllocator(ctx); err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	cs.Write(Name, s)
	return nil, nil
}

// usable says why a claim cannot be used on any node, and learns which nodes reach one that has devices.
func (pl *DynamicResources) usable(c *podClaim, pod *corev1.Pod) *fwk.Status {
	allocation := c.claim.Status.Allocation
	if allocation != nil {
		if !resourceclaim.IsReservedForPod(pod, c.claim, false) &&
			(!resourceclaim.CanBeReserved(c.claim) || len(c.claim.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize) {
			return reject("resourceclaim in use")
		}
		if allocation.NodeSelector != nil {
			var err error
			if c.nodes, err = nodeaffinity.NewNodeSelector(allocation.NodeSelector); err != nil {
				return fwk.AsStatus(fmt.Errorf("reading the nodes of resource claim %v: %w", klog.KObj(c.claim), err))
			}
		}
		return nil
	}
	if pl.dra.ResourceClaims().GetPendingAllocation(c.claim.UID) != nil {
		return reject("resource claim %s is in the process of being allocated", klog.KObj(c.claim))
	}
	if c.special {
		return nil // what it asks for depends on the node
	}
	for _, r := range c.claim.Spec.Devices.Requests {
		switch {
		case r.Exactly != nil:
			if status := pl.checkClass(r.Name, r.Exactly.DeviceClassName); !status.IsSuccess() {
				return status
			}
		case len(r.FirstAvailable) > 0:
			for _, sub := range r.FirstAvailable {
				if status := pl.checkClass(resourceclaim.CreateSubRequestRef(r.Name, sub.Name), sub.DeviceClassName); !status.IsSuccess() {
					return status
				}
			}
		default:
			return reject("resource claim %s, request %s: unknown request type", klog.KObj(c.claim), r.Name)
		}
	}
	return nil
}

func (pl *DynamicResources) checkClass(request, class string) *fwk.Status {
	if class == "" {
		return fwk.AsStatus(fmt.Errorf("request %s: unsupported request type", request))
	}
	_, err := pl.dra.DeviceClasses().Get(class)
	if apierrors.IsNotFound(err) {
		return reject("request %s: device class %s does not exist", request, class)
	}
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("getting device class %s: %w", class, err))
	}
	return nil
}

// newAllocator returns one for the devices as they are free now; they stay so until the cycle's Reserve.
func (pl *DynamicResources) newAllocator(ctx context.Context) (structured.Allocator, error) {
	s, taken, slices, err := pl.memory.begin()
	if err != nil {
		return nil, fmt.Errorf("listing ResourceSlices: %w", err)
	}
	s.Allocator, err = structured.NewAllocator(ctx, features, *taken, pl.dra.DeviceClasses(), slices, pl.cel)
	return s, err
}

// PreFilterExtensions implements fwk.PreFilterPlugin: devices do not come back when a pod is evicted, but when its claim says so.
func (*DynamicResources) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
