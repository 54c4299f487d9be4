// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Reserve takes the devices that were found on the chosen node, so that no other pod gets them although nothing is written.
func (pl *DynamicResources) Reserve(_ context.Context, cs fwk.CycleState, _ *corev1.Pod, node string) *fwk.Status {
	s := read(cs)
	if s == nil || s.allocator == nil {
		return nil
	}
	place := s.placements[node]
	if place == nil {
		return fwk.AsStatus(errors.New("claim allocation not found for node"))
	}
	for i, allocation := range place.allocations {
		if allocation == nil {
			continue
		}
		c := &s.claims[i]
		claim := c.claim
		if c.special {
			claim = place.special
		}
		claim = claim.DeepCopy()
		if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
			claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
		}
		claim.Status.Allocation = allocation
		if err := pl.dra.ResourceClaims().SignalClaimPendingAllocation(claim.UID, claim); err != nil {
			return fwk.AsStatus(fmt.Errorf("internal error, couldn't signal allocation for claim %s: %w", claim.Name, err))
		}
		c.allocation, c.pending = allocation, claim.UID
	}
	return nil
}

// Unreserve lets others have what the pod does not get.
func (pl *DynamicResources) Unreserve(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, _ string) {
	s := read(cs)
	if s == nil {
		return
	}
	for i := range s.claims {
		c := &s.claims[i]
		if c.unknown {
			pl.find(ctx, c)
		}
		pl.release(c)
		if ctx.Err() != nil {
			continue // the scheduler ends; the next one goes on with what is written
		}
		if c.special {
			if c.claim.Name != specialName {
				if err := pl.deleteClaim(ctx, c.claim); err != nil {
					klog.FromContext(ctx).Error(err, "Deleting the claim of a pod that was not bound failed", "resourceclaim", klog.KObj(c.claim), "pod", klog.KObj(pod))
				}
			}
			continue
		}
		if c.claim.Status.Allocation != nil && resourceclaim.IsReservedForPod(pod, c.claim, false) {
			pl.unreserve(ctx, c, pod)
		}
	}
}

// release ends what Reserve began for a claim: from now on what is known of it counts.
func (pl *DynamicResources) release(c *podClaim) {
	if c.pending != "" {
		pl.dra.ResourceClaims().MaybeRemoveClaimPendingAllocation(c.pending, false)
		c.pending = ""
	}
}

// unreserve takes the pod off a claim's users. The next attempt would come here again if that failed.
func (pl *DynamicResources) unreserve(ctx context.Context, c *podClaim, pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	patch := fmt.Appendf(nil, `{"metadata": {"uid": %q}, "status": { "reservedFor": [ {"$patch": "delete", "uid": %q} ] }}`, c.claim.UID, pod.UID)
	claim, err := pl.claims(c).Patch(ctx, c.claim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		klog.FromContext(ctx).Error(err, "Taking a pod that was not bound off the users of its claim failed", "resourceclaim", klog.KObj(c.claim), "pod", klog.KObj(pod))
		return
	}
	c.claim = claim
	pl.assume(ctx, claim)
}

// assume makes what was written known before its event comes.
func (pl *DynamicResources) assume(ctx context.Context, claim *resourcev1.ResourceClaim) {
	if err := pl.dra.ResourceClaims().AssumeClaimAfterAPICall(claim); err != nil {
		// Somebody has changed it since, or it is gone.
		klog.FromContext(ctx).V(5).Info("What was written of a claim is not the newest", "resourceclaim", klog.KObj(claim), "reason", err.Error())
	}
}
