// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// Filter rejects nodes that do not reach the devices of a claim, or on which a claim would get none.
func (pl *DynamicResources) Filter(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	s := read(cs)
	if s == nil {
		return nil
	}
	place, status := pl.needs(s, pod, info)
	if !status.IsSuccess() {
		return status
	}
	var unavailable []int
	for i := range s.claims {
		if !pl.available(&s.claims[i], info.Node()) {
			unavailable = append(unavailable, i)
		}
	}
	if len(unavailable) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unavailable = s.unavailable.Union(sets.New(unavailable...))
		return reject("resourceclaim not available on the node")
	}
	if s.allocator == nil {
		return nil
	}
	if status := pl.allocate(ctx, s, place, info.Node()); !status.IsSuccess() {
		return status
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placements[info.Node().Name] = place
	return nil
}

// needs returns the placement of a node as far as it is known without its devices.
func (pl *DynamicResources) needs(s *state, pod *corev1.Pod, info fwk.NodeInfo) (*placement, *fwk.Status) {
	place := &placement{allocations: make([]*resourcev1.AllocationResult, len(s.claims))}
	last := &s.claims[len(s.claims)-1]
	if !last.special {
		return place, nil
	}
	if last.claim.Name != specialName {
		// Of an earlier attempt: PostFilter deletes it, and another one is made.
		return nil, reject("cannot schedule extended resource claim")
	}
	classes := pl.deviceResources(pod, info)
	if len(classes) == 0 {
		return place, nil
	}
	place.special = last.claim.DeepCopy()
	place.special.Spec.Devices.Requests, place.mappings = requestsFor(pod, classes)
	return place, nil
}

// available tells whether the node reaches the devices of a claim, and whether these are not lost for the pod.
func (pl *DynamicResources) available(c *podClaim, node *corev1.Node) bool {
	if c.nodes != nil && !c.nodes.Match(node) {
		return false
	}
	if c.claim.Status.Allocation == nil {
		return true
	}
	ready, err := bindingReady(c.claim)
	return err == nil && (ready || !pl.bindingTimedOut(c.claim))
}

// allocate finds devices on the node for the claims that have none.
func (pl *DynamicResources) allocate(ctx context.Context, s *state, place *placement, node *corev1.Node) *fwk.Status {
	var claims []*resourcev1.ResourceClaim
	var indexes []int
	for i := range s.claims {
		claim := s.claims[i].claim
		if s.claims[i].special {
			claim = place.special
		}
		if claim != nil && claim.Status.Allocation == nil {
			claims, indexes = append(claims, claim), append(indexes, i)
		}
	}
	if len(claims) == 0 {
		return nil
	}
	search := ctx
	if pl.filterTimeout > 0 {
		var cancel context.CancelFunc
		search, cancel = context.WithTimeout(ctx, pl.filterTimeout)
		defer cancel()
	}
	results, err := s.allocator.Allocate(search, node, claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		// Time may help, so that this is no rejection.
		return fwk.AsStatus(fmt.Errorf("node %s: timed out trying to allocate devices", node.Name))
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return reject("%v", err)
	case ctx.Err() != nil:
		return reject("asked by caller to stop allocating devices: %v", context.Cause(ctx))
	case err != nil:
		// A claim or a class is wrong: it would be so on any node.
		return fwk.AsStatus(err)
	case len(results) != len(claims):
		return reject("cannot allocate all claims")
	}
	for k, i := range indexes {
		place.allocations[i] = &results[k]
	}
	return nil
}

// PreScore leaves the score out unless a claim has alternatives.
func (*DynamicResources) PreScore(_ context.Context, cs fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if s := read(cs); s != nil {
		for i := range s.claims {
			for _, r := range s.claims[i].claim.Spec.Devices.Requests {
				if len(r.FirstAvailable) > 0 {
					return nil
				}
			}
		}
	}
	return fwk.NewStatus(fwk.Skip)
}

// Score is higher for nodes where the requests get what is listed first.
func (*DynamicResources) Score(_ context.Context, cs fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	s := read(cs)
	if s == nil {
		return 0, nil
	}
	place := s.placements[info.Node().Name]
	if place == nil {
		return 0, nil
	}
	var score int64
	for i := range s.claims {
		allocation := s.claims[i].claim.Status.Allocation
		if allocation == nil {
			allocation = place.allocations[i]
		}
		if allocation != nil {
			score += preference(s.claims[i].claim, allocation)
		}
	}
	return score, nil
}

// preference counts for each request with alternatives how early the one is listed that it got.
func preference(claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult) (score int64) {
	got := sets.New[string]()
	for i := range allocation.Devices.Results {
		got.Insert(allocation.Devices.Results[i].Request)
	}
	for _, r := range claim.Spec.Devices.Requests {
		for i, sub := range r.FirstAvailable {
			if got.Has(resourceclaim.CreateSubRequestRef(r.Name, sub.Name)) {
				score += int64(resourcev1.FirstAvailableDeviceRequestMaxSize - i)
			}
		}
	}
	return score
}

// ScoreExtensions implements fwk.ScorePlugin.
func (pl *DynamicResources) ScoreExtensions() fwk.ScoreExtensions { return pl }

// NormalizeScore implements fwk.ScoreExtensions.
func (*DynamicResources) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	framework.Normalize(scores)
	return nil
}

// PostFilter takes the devices from a claim of the pod that nobody else uses, if they were in the way, so that the next attempt
// finds others.
func (pl *DynamicResources) PostFilter(ctx context.Context, cs fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s := read(cs)
	if s == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for i := range s.unavailable { // in no order: none is better than another
		c := &s.claims[i]
		users := c.claim.Status.ReservedFor
		if c.special || len(users) > 1 || len(users) == 1 && users[0].UID != pod.UID {
			continue
		}
		claim := c.claim.DeepCopy()
		claim.Status.ReservedFor, claim.Status.Allocation, claim.Status.Devices = nil, nil, nil
		updated, err := pl.claims(c).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("deallocating resource claim %v: %w", klog.KObj(claim), err))
		}
		pl.assume(ctx, updated)
		return nil, fwk.NewStatus(fwk.Unschedulable, "deallocation of ResourceClaim completed")
	}
	if last := s.claims[len(s.claims)-1]; last.special && last.claim.Name != specialName {
		if err := pl.deleteClaim(ctx, last.claim); err != nil {
			return nil, fwk.AsStatus(err)
		}
		return nil, fwk.NewStatus(fwk.Unschedulable, "deletion of ResourceClaim completed")
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}
