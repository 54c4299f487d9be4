// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

const (
	minShares   = 2
	maxShares   = 262144
	quotaPeriod = 100_000 // microseconds
	minQuota    = 1000    // microseconds

	// OOM score adjustments as upstream assigns them.
	oomGuaranteed = -997
	oomBestEffort = 1000
)

// shares translates a CPU request to cgroup v1's relative weight.
func shares(cpu *resource.Quantity) int64 {
	return min(max(cpu.MilliValue()*1024/1000, minShares), maxShares)
}

// CPUTime says how limits of CPU are kept. The zero value is upstream's default.
type CPUTime struct {
	// Unlimited: they are not kept. Who needs CPU time gets it by the weight of its request.
	Unlimited bool
	// Period is over how long a limit counts. Default 100 ms.
	Period time.Duration
}

// limit sets what a limit of CPU comes to, in r.
func (t CPUTime) limit(r *container.Resources, cpu *resource.Quantity) {
	if t.Unlimited || cpu.IsZero() {
		return
	}
	r.CPUPeriod = quotaPeriod
	if t.Period > 0 {
		r.CPUPeriod = t.Period.Microseconds()
	}
	r.CPUQuota = max(cpu.MilliValue()*r.CPUPeriod/1000, minQuota)
}

// ContainerResources returns what a container's cgroup is set to. A container without a limit of its own has the pod's,
// if the pod has one.
func ContainerResources(pod *corev1.Pod, c *corev1.Container, cpu CPUTime) container.Resources {
	limit := func(name corev1.ResourceName) *resource.Quantity {
		if q, ok := c.Resources.Limits[name]; ok && !q.IsZero() {
			return &q
		}
		if resourcehelper.IsPodLevelLimitsSet(pod) {
			if q, ok := pod.Spec.Resources.Limits[name]; ok {
				return &q
			}
		}
		return &resource.Quantity{}
	}
	request, ok := c.Resources.Requests[corev1.ResourceCPU]
	if !ok {
		request = *limit(corev1.ResourceCPU) // as the defaults of the API have it
	}
	r := container.Resources{CPUShares: shares(&request), MemoryBytes: limit(corev1.ResourceMemory).Value()}
	cpu.limit(&r, limit(corev1.ResourceCPU))
	return r
}

// podResources returns what a pod's cgroup is set to. There is a limit only if all containers, or the pod itself, have
// one.
func podResources(pod *corev1.Pod, cpu CPUTime) container.Resources {
	class := qos.Of(pod)
	if class == corev1.PodQOSBestEffort {
		return container.Resources{CPUShares: minShares}
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	r := container.Resources{CPUShares: shares(requests.Cpu())}
	if podspec.Limited(pod, corev1.ResourceCPU) {
		cpu.limit(&r, limits.Cpu())
	}
	if podspec.Limited(pod, corev1.ResourceMemory) {
		r.MemoryBytes = limits.Memory().Value()
	}
	return r
}

// OOMScoreAdj returns how readily the kernel kills a container when the node's memory (in bytes) runs out: the less of
// it a burstable container has requested, the sooner.
func OOMScoreAdj(pod *corev1.Pod, c *corev1.Container, nodeMemory int64) int {
	if pod.Spec.PriorityClassName == "system-node-critical" {
		return oomGuaranteed
	}
	switch qos.Of(pod) {
	case corev1.PodQOSGuaranteed:
		return oomGuaranteed
	case corev1.PodQOSBestEffort:
		return oomBestEffort
	}
	if nodeMemory <= 0 {
		return oomBestEffort - 1
	}
	adj := burstableOOMScoreAdj(pod, c, nodeMemory)
	if isSidecar(pod, c) {
		// A sidecar must not be killed before the containers that it serves.
		for i := range pod.Spec.Containers {
			adj = min(adj, burstableOOMScoreAdj(pod, &pod.Spec.Containers[i], nodeMemory))
		}
	}
	return adj
}

func burstableOOMScoreAdj(pod *corev1.Pod, c *corev1.Container, nodeMemory int64) int {
	request := c.Resources.Requests.Memory().Value() + podShare(pod)
	adj := 1000 - int(float64(request)*1000/float64(nodeMemory))
	// Between the guaranteed and the best-effort containers in any case.
	return min(max(adj, 1000+oomGuaranteed), oomBestEffort-1)
}

// podShare is a container's part of what the pod itself requests on top of its containers.
func podShare(pod *corev1.Pod) int64 {
	if !resourcehelper.IsPodLevelRequestsSet(pod) {
		return 0
	}
	all, ok := pod.Spec.Resources.Requests[corev1.ResourceMemory]
	if !ok {
		return 0
	}
	sum := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	n := int64(len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		if isSidecar(pod, &pod.Spec.InitContainers[i]) {
			n++
		}
	}
	return max(0, all.Value()-sum.Memory().Value()) / max(n, 1)
}

func isSidecar(pod *corev1.Pod, c *corev1.Container) bool {
	for _, i := range pod.Spec.InitContainers {
		if i.Name == c.Name {
			return i.RestartPolicy != nil && *i.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}
