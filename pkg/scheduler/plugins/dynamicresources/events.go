// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

// EventsToRegister implements fwk.EnqueueExtensions: a claim of the pod has changed, devices came or became free, or there is a
// node or a class more. A pod that was not bound gives devices back of which no claim ever told.
func (pl *DynamicResources) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		framework.Event(fwk.Node, fwk.Add|fwk.UpdateNodeLabel|fwk.UpdateNodeAllocatable, nil),
		framework.Event(fwk.ResourceClaim, fwk.Add|fwk.Update|fwk.Delete, framework.Hint(pl.claimHelps)),
		framework.Event(fwk.TargetPod, fwk.UpdatePodGeneratedResourceClaim, framework.Hint(func(_ *corev1.Pod, _, new any) bool {
			pod, ok := new.(*corev1.Pod)
			if !ok {
				return true
			}
			_, err := pl.claimsOf(pod)
			return err == nil
		})),
		framework.Event(fwk.AssignedPod, fwk.Delete, framework.Hint(func(_ *corev1.Pod, old, _ any) bool {
			pod, ok := old.(*corev1.Pod)
			return !ok || len(pod.Spec.ResourceClaims) > 0 || pl.backed(pod)
		})),
		framework.Event(fwk.DeviceClass, fwk.Add|fwk.Update, nil),
		framework.Event(fwk.ResourceSlice, fwk.Add|fwk.Update, nil),
	}, nil
}

// backed tells whether a device class stands for a resource that the pod asks for.
func (pl *DynamicResources) backed(pod *corev1.Pod) bool {
	for name, amount := range framework.NewPodInfo(pod).Requests.Scalar {
		if amount > 0 && pl.dra.DeviceClassResolver().GetDeviceClass(name) != nil {
			return true
		}
	}
	return false
}

// claimHelps tells whether a change of a claim may help a pod.
func (pl *DynamicResources) claimHelps(pod *corev1.Pod, old, new any) bool {
	before, _ := old.(*resourcev1.ResourceClaim)
	after, _ := new.(*resourcev1.ResourceClaim)
	if after == nil {
		// Devices of a claim are given back before it goes, unless somebody takes a short cut.
		return before == nil || before.Status.Allocation != nil
	}
	claims, err := pl.claimsOf(pod)
	if err != nil {
		return false // the pod still waits for a claim
	}
	if before != nil && before.Status.Allocation != nil && after.Status.Allocation == nil {
		return true
	}
	if !slices.ContainsFunc(claims, func(c *resourcev1.ResourceClaim) bool { return c.UID == after.UID }) {
		return false
	}
	return before == nil || !equality.Semantic.DeepEqual(&before.Status, &after.Status)
}
