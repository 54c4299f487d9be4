// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"minik8s.io/minik8s/pkg/scheduler/framework"
)

const (
	// specialName is that of a claim which is only in memory. It is no name that a claim may have.
	specialName = "<extended-resources>"

	// seenPoll and seenTimeout are for the event of a claim that was created.
	seenPoll    = 50 * time.Millisecond
	seenTimeout = 2 * time.Minute
)

// specialClaim returns the claim for the extended resources of a pod that device classes stand for: that of an earlier attempt,
// or one in memory that asks for nothing yet. It is nil if there are no such resources.
func (pl *DynamicResources) specialClaim(cs fwk.CycleState, pod *corev1.Pod) *resourcev1.ResourceClaim {
	backed := false
	for name, amount := range framework.InfoOf(cs, pod).Requests.Scalar {
		backed = backed || amount > 0 && pl.dra.DeviceClassResolver().GetDeviceClass(name) != nil
	}
	if !backed {
		return nil
	}
	if claim := pl.made(pod.UID); claim != nil {
		return claim
	}
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace:       pod.Namespace,
		Name:            specialName,
		UID:             pod.UID + "-extended-resources",
		GenerateName:    pod.Name + "-extended-resources-",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
		Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
	}}
}

// deviceResources returns the classes of the pod's extended resources that a node does not have itself.
func (pl *DynamicResources) deviceResources(pod *corev1.Pod, info fwk.NodeInfo) map[corev1.ResourceName]string {
	out := map[corev1.ResourceName]string{}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name, amount := range containers[i].Resources.Requests {
				if amount.IsZero() || info.GetAllocatable().GetScalarResources()[name] > 0 {
					continue
				}
				if class := pl.dra.DeviceClassResolver().GetDeviceClass(name); class != nil {
					out[name] = class.Name
				}
			}
		}
	}
	return out
}

// requestsFor returns what a claim asks for to satisfy the extended resources of a pod, and which container gets the devices of
// which request. Containers that run to the end one after the other before the others share devices among them, and use those
// of the containers that start later.
func requestsFor(pod *corev1.Pod, classes map[corev1.ResourceName]string) (requests []resourcev1.DeviceRequest, mappings []corev1.ContainerExtendedResourceRequest) {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	early := func(i int) bool {
		policy := containers[i].RestartPolicy
		return i < len(pod.Spec.InitContainers) && (policy == nil || *policy != corev1.ContainerRestartPolicyAlways)
	}
	for _, resource := range slices.Sorted(maps.Keys(classes)) {
		lasting := make([]*resourcev1.DeviceRequest, len(containers))
		for i := range containers {
			if n := amount(&containers[i], resource); n > 0 && !early(i) {
				lasting[i] = request(i, &containers[i], resource, classes[resource], n)
				requests = append(requests, *lasting[i])
				mappings = append(mappings, mapping(&containers[i], resource, lasting[i].Name))
			}
		}
		var most *resourcev1.DeviceRequest // that of all early ones
		var users []int                    // indexes of mappings that go to it
		for i := range containers {
			n := amount(&containers[i], resource)
			if n == 0 || !early(i) {
				continue
			}
			for _, later := range lasting[i:] {
				if later != nil && n > 0 {
					mappings = append(mappings, mapping(&containers[i], resource, later.Name))
					n -= later.Exactly.Count
				}
			}
			if n <= 0 {
				continue
			}
			if most == nil || most.Exactly.Count < n {
				most = request(i, &containers[i], resource, classes[resource], n)
			}
			users = append(users, len(mappings))
			mappings = append(mappings, mapping(&containers[i], resource, ""))
		}
		if most != nil {
			requests = append(requests, *most)
			for _, i := range users {
				mappings[i].RequestName = most.Name
			}
		}
	}
	slices.SortFunc(requests, func(a, b resourcev1.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return requests, mappings
}

func amount(c *corev1.Container, resource corev1.ResourceName) int64 {
	q := c.Resources.Requests[resource]
	n, _ := q.AsInt64()
	return n
}

// request is named by the places of the container and of the resource, in the order of names, in it.
func request(i int, c *corev1.Container, resource corev1.ResourceName, class string, n int64) *resourcev1.DeviceRequest {
	at := slices.Index(slices.Sorted(maps.Keys(c.Resources.Requests)), resource)
	return &resourcev1.DeviceRequest{
		Name: fmt.Sprintf("container-%d-request-%d", i, at),
		Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n,
		},
	}
}

func mapping(c *corev1.Container, resource corev1.ResourceName, request string) corev1.ContainerExtendedResourceRequest {
	return corev1.ContainerExtendedResourceRequest{ContainerName: c.Name, ResourceName: string(resource), RequestName: request}
}

// createClaim stores the claim for extended resources, without devices, but with the finalizer that it is to have before these.
// One whose answer gets lost is found and deleted by the next attempt.
func (pl *DynamicResources) createClaim(ctx context.Context, c *podClaim, place *placement) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	claim := place.special.DeepCopy()
	claim.Name, claim.UID, claim.Finalizers = "", "", []string{resourcev1.Finalizer}
	created, err := pl.handle.ClientSet().ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	pl.count.ClaimCreated(err)
	if err != nil {
		return fmt.Errorf("create claim for extended resources %v: %w", klog.KObj(claim), err)
	}
	c.claim = created
	return nil
}

// assumeNew makes a claim known that was created. Until its informer has it the devices stay taken by Reserve.
func (pl *DynamicResources) assumeNew(ctx context.Context, claim *resourcev1.ResourceClaim) {
	err := wait.PollUntilContextTimeout(ctx, seenPoll, seenTimeout, true, func(context.Context) (bool, error) {
		if pl.dra.ResourceClaims().AssumeClaimAfterAPICall(claim) == nil {
			return true, nil
		}
		known, err := pl.dra.ResourceClaims().Get(claim.Namespace, claim.Name)
		return err == nil && known.UID == claim.UID && known.Status.Allocation != nil, nil
	})
	if err != nil {
		klog.FromContext(ctx).Info("A claim for extended resources was not seen after it was written", "resourceclaim", klog.KObj(claim), "reason", err.Error())
	}
}

// patchPod tells the kubelet which devices of the claim are for which container.
func (pl *DynamicResources) patchPod(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim, place *placement) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"extendedResourceClaimStatus": corev1.PodExtendedResourceClaimStatus{
			RequestMappings: place.mappings, ResourceClaimName: claim.Name,
		}},
	})
	if err == nil {
		_, err = pl.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fmt.Errorf("update pod %s/%s ExtendedResourceClaimStatus: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// deleteClaim deletes a claim for extended resources at once: its finalizer is the scheduler's.
func (pl *DynamicResources) deleteClaim(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	api := pl.handle.ClientSet().ResourceV1().ResourceClaims(claim.Namespace)
	uid, latest, stale := claim.UID, claim.DeepCopy(), false
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if stale {
			var err error
			if latest, err = api.Get(ctx, claim.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		stale = true
		if latest.UID != uid || !slices.Contains(latest.Finalizers, resourcev1.Finalizer) {
			return nil
		}
		latest.Finalizers = slices.DeleteFunc(latest.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
		_, err := api.Update(ctx, latest, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		err = api.Delete(ctx, claim.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting resourceclaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
