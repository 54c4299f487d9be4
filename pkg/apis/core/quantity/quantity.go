// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package quantity knows amounts of resources (cpu, memory, extended resources): their names, defaults and validation.
// Touch it when a kind of resource is added.
package quantity

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
)

const requestsPrefix = "requests."

// standard are the names without a domain that some part of the API takes.
var standard = sets.New(
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceRequestsStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
)

// counted are the standard names that count objects, so that only whole numbers make sense.
var counted = sets.New(
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
)

// IsHugePages tells whether name is one of hugepages-SIZE.
func IsHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// IsNative tells whether name belongs to Kubernetes itself: it has no domain, or kubernetes.io.
func IsNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// IsExtended tells whether name is a resource that nodes advertise from outside, such as example.com/gpu.
func IsExtended(name corev1.ResourceName) bool {
	if IsNative(name) || strings.HasPrefix(string(name), requestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(requestsPrefix+string(name))) == 0
}

// IsStandard tells whether name is a domain-less name that the API knows.
func IsStandard(name corev1.ResourceName) bool {
	return standard.Has(name) || IsHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// IsStandardForContainers tells whether name is a domain-less name that containers can request.
func IsStandardForContainers(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return IsHugePages(name)
}

// IsInteger tells whether amounts must be whole numbers.
func IsInteger(name corev1.ResourceName) bool { return counted.Has(name) || IsExtended(name) }

// IsOvercommitAllowed tells whether limits may exceed requests.
func IsOvercommitAllowed(name corev1.ResourceName) bool { return IsNative(name) && !IsHugePages(name) }

// Names returns the names in a list in order.
func Names(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// SetDefaults rounds amounts up to thousandths, which is as fine as the API keeps them.
func SetDefaults(list corev1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		list[name] = q
	}
}

// SetRequirementsDefaults does so for requests and limits.
func SetRequirementsDefaults(r *corev1.ResourceRequirements) {
	SetDefaults(r.Limits)
	SetDefaults(r.Requests)
}

// RequestLimits makes the request of each resource that has only a limit equal to it.
func RequestLimits(r *corev1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			r.Requests[name] = limit.DeepCopy()
		}
	}
}
