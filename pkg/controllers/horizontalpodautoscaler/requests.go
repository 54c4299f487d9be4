// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcehelpers "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// requestsOf returns how much of a resource each pod requests, in thousandths, by name; with the name of a container, how much that
// one does. A pod that does not say it is an error: there is nothing to relate its usage to.
func requestsOf(all []*corev1.Pod, container string, resource corev1.ResourceName) (map[string]int64, error) {
	requests := make(map[string]int64, len(all))
	for _, pod := range all {
		var err error
		if container == "" && resourcehelpers.IsPodLevelRequestsSet(pod) {
			requests[pod.Name], err = podRequest(pod, resource)
		} else {
			requests[pod.Name], err = containersRequest(pod, container, resource)
		}
		if err != nil {
			return nil, err
		}
	}
	return requests, nil
}

// podRequest is what a pod requests as a whole (KEP-2837).
func podRequest(pod *corev1.Pod, resource corev1.ResourceName) (int64, error) {
	request, ok := resourcehelpers.PodRequests(pod, resourcehelpers.PodResourcesOptions{})[resource]
	if !ok {
		return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", resource, pod.Name)
	}
	return request.MilliValue(), nil
}

// containersRequest adds up what those containers request that run as long as the pod does, or takes one of them.
func containersRequest(pod *corev1.Pod, container string, resource corev1.ResourceName) (int64, error) {
	var sum int64
	for _, c := range lasting(pod) {
		if container != "" && c.Name != container {
			continue
		}
		request, ok := c.Resources.Requests[resource]
		if !ok {
			return 0, fmt.Errorf("missing request for %s in container %s of Pod %s", resource, c.Name, pod.Name)
		}
		if container != "" {
			return request.MilliValue(), nil
		}
		sum = plus(sum, request.MilliValue())
	}
	if container != "" {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, pod.Name)
	}
	return sum, nil
}

// lasting are the containers of a pod and its sidecars.
func lasting(pod *corev1.Pod) []*corev1.Container {
	var found []*corev1.Container
	for i := range pod.Spec.Containers {
		found = append(found, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			found = append(found, c)
		}
	}
	return found
}
