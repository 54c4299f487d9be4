// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"math"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"minik8s.io/minik8s/pkg/apis/core/qos"
	"minik8s.io/minik8s/pkg/kubelet/container"
	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

// MemoryQoS is how memory is kept for pods, and how containers that take much are slowed down (KEP-2570). The zero value does neither.
// Version 2 only.
type MemoryQoS struct {
	// ThrottlingFactor is how much of what a container may have beyond its request it gets before the kernel slows it down, above 0 and at
	// most 1; 0 slows nothing down.
	ThrottlingFactor float64
	// Reserve keeps what guaranteed pods have requested, and that of burstable ones as long as others can give memory back (TieredReservation).
	Reserve bool
	// Allocatable is what the node has for pods, in bytes: containers without a limit are slowed down by it.
	Allocatable int64
}

// protection is how the kernel takes memory away from a group: never below min and, as long as others have some, not below low; what goes
// beyond high has to wait until something was taken. In bytes, 0 is none.
type protection struct{ min, low, high int64 }

// on says whether it does anything.
func (q MemoryQoS) on() bool { return q.Reserve || q.ThrottlingFactor > 0 }

// files are what a group has of it in version 2.
func (m protection) files() map[string]string {
	high := "max"
	if m.high > 0 {
		high = strconv.FormatInt(m.high, 10)
	}
	return map[string]string{"memory.min": strconv.FormatInt(m.min, 10), "memory.low": strconv.FormatInt(m.low, 10), "memory.high": high}
}

// limits are what a group is set to.
type limits struct {
	container.Resources
	memory protection
}

// reserved is what is kept of a request.
func (q MemoryQoS) reserved(class corev1.PodQOSClass, request int64) protection {
	switch {
	case !q.Reserve:
		return protection{}
	case class == corev1.PodQOSGuaranteed:
		return protection{min: request}
	default:
		return protection{low: request}
	}
}

// high is where the kernel begins to slow down what has requested some memory and may have more.
func (q MemoryQoS) high(request, limit int64) int64 {
	if q.ThrottlingFactor == 0 || limit == 0 {
		return 0
	}
	page := int64(os.Getpagesize())
	high := int64(math.Floor(float64(request)+float64(limit-request)*q.ThrottlingFactor)) / page * page
	if request >= limit || high <= request {
		return 0
	}
	return high
}

// container is that of a container. One that has only the limit of its pod is slowed down with it.
func (q MemoryQoS) container(pod *corev1.Pod, c *corev1.Container) protection {
	request, limit := c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value()
	m := q.reserved(qos.Of(pod), request)
	switch {
	case limit > 0:
		m.high = q.high(request, limit)
	case !resourcehelper.IsPodLevelResourcesSet(pod) || pod.Spec.Resources.Limits.Memory().IsZero():
		m.high = q.high(request, q.Allocatable)
	}
	return m
}

// pod is that of a pod.
func (q MemoryQoS) pod(pod *corev1.Pod) protection {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	m := q.reserved(qos.Of(pod), requests.Memory().Value())
	if resourcehelper.IsPodLevelResourcesSet(pod) && podspec.Limited(pod, corev1.ResourceMemory) {
		limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
		m.high = q.high(requests.Memory().Value(), limits.Memory().Value())
	}
	return m
}

// kept is what the group of all pods keeps, for a group keeps no more than the one above it. low is for the burstable ones.
func (m *Manager) kept() protection {
	var all protection
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.applied {
		all.min += g.limits.memory.min + g.limits.memory.low
		all.low += g.limits.memory.low
	}
	return all
}
