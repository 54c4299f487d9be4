// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
)

// A container without a request counts for these when nodes are scored, so that
// best-effort pods spread too. Upstream uses the same values.
const (
	defaultMilliCPURequest = 100
	defaultMemoryRequest   = 200 * 1024 * 1024
)

// Resource is an amount of compute resources: milli-CPUs, bytes and counts.
type Resource struct {
	MilliCPU         int64
	Memory           int64
	EphemeralStorage int64
	// Pods is the number of pods a node allows.
	Pods int64
	// Scalar holds extended resources, huge pages and attachable volumes.
	Scalar map[corev1.ResourceName]int64
}

// NewResource converts a list of quantities.
func NewResource(list corev1.ResourceList) Resource {
	var r Resource
	for name, q := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = q.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = q.Value()
		case corev1.ResourcePods:
			r.Pods = q.Value()
		default:
			if isScalar(name) {
				if r.Scalar == nil {
					r.Scalar = map[corev1.ResourceName]int64{}
				}
				r.Scalar[name] = q.Value()
			}
		}
	}
	return r
}

func isScalar(name corev1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") || strings.HasPrefix(s, corev1.ResourceHugePagesPrefix) || strings.HasPrefix(s, corev1.ResourceAttachableVolumesPrefix)
}

var _ fwk.Resource = (*Resource)(nil)

// GetMilliCPU implements fwk.Resource.
func (r *Resource) GetMilliCPU() int64 { return r.MilliCPU }

// GetMemory implements fwk.Resource.
func (r *Resource) GetMemory() int64 { return r.Memory }

// GetEphemeralStorage implements fwk.Resource.
func (r *Resource) GetEphemeralStorage() int64 { return r.EphemeralStorage }

// GetAllowedPodNumber implements fwk.Resource.
func (r *Resource) GetAllowedPodNumber() int { return int(r.Pods) }

// GetScalarResources implements fwk.Resource.
func (r *Resource) GetScalarResources() map[corev1.ResourceName]int64 { return r.Scalar }

// SetMaxResource raises each amount to that of a list.
func (r *Resource) SetMaxResource(list corev1.ResourceList) {
	o := NewResource(list)
	r.MilliCPU, r.Memory, r.EphemeralStorage = max(r.MilliCPU, o.MilliCPU), max(r.Memory, o.Memory), max(r.EphemeralStorage, o.EphemeralStorage)
	for name, v := range o.Scalar {
		if r.Scalar == nil {
			r.Scalar = map[corev1.ResourceName]int64{}
		}
		r.Scalar[name] = max(r.Scalar[name], v)
	}
}

// Amount returns how much of a resource there is, by its name.
func Amount(r fwk.Resource, name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return r.GetMilliCPU()
	case corev1.ResourceMemory:
		return r.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return r.GetEphemeralStorage()
	case corev1.ResourcePods:
		return int64(r.GetAllowedPodNumber())
	}
	return r.GetScalarResources()[name]
}

// add adds o times sign to r.
func (r *Resource) add(o fwk.Resource, sign int64) {
	r.MilliCPU += sign * o.GetMilliCPU()
	r.Memory += sign * o.GetMemory()
	r.EphemeralStorage += sign * o.GetEphemeralStorage()
	for name, v := range o.GetScalarResources() {
		if r.Scalar == nil {
			r.Scalar = map[corev1.ResourceName]int64{}
		}
		r.Scalar[name] += sign * v
	}
}

// AppendTo appends all amounts, which no others give the same.
func (r *Resource) AppendTo(b []byte) []byte {
	for _, n := range []int64{r.MilliCPU, r.Memory, r.EphemeralStorage, r.Pods} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Scalar)) {
		b = fmt.Appendf(b, "%q=%d,", name, r.Scalar[name])
	}
	return b
}

// Clone returns a deep copy.
func (r Resource) Clone() Resource {
	r.Scalar = maps.Clone(r.Scalar)
	return r
}

// podRequests returns what a pod takes from a node: init containers, sidecars,
// overhead, pod-level resources (KEP-2837) and a resize in progress (KEP-1287)
// are considered. nonZero has the scoring defaults filled in.
func podRequests(pod *corev1.Pod) (requests, nonZero Resource) {
	opts := resourcehelper.PodResourcesOptions{
		// Without it the same comes out where no kubelet has told anything yet, in a third of the work.
		UseStatusResources: tellsResources(pod),
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}
	list := resourcehelper.PodRequests(pod, opts)
	requests = NewResource(list)

	missing := corev1.ResourceList{}
	podLevel := resourcehelper.IsPodLevelRequestsSet(pod)
	if _, ok := list[corev1.ResourceCPU]; !podLevel || !ok {
		missing[corev1.ResourceCPU] = *resource.NewMilliQuantity(defaultMilliCPURequest, resource.DecimalSI)
	}
	if _, ok := list[corev1.ResourceMemory]; !podLevel || !ok {
		missing[corev1.ResourceMemory] = *resource.NewQuantity(defaultMemoryRequest, resource.DecimalSI)
	}
	if !opts.UseStatusResources && asksForAll(pod.Spec.Containers, missing) && asksForAll(pod.Spec.InitContainers, missing) {
		return requests, requests.Clone()
	}
	opts.NonMissingContainerRequests = missing
	nonZero = NewResource(resourcehelper.PodRequests(pod, opts))
	return requests, nonZero
}

// tellsResources tells whether a kubelet has said what a pod has, or that it cannot have what it asks for.
func tellsResources(pod *corev1.Pod) bool {
	st := &pod.Status
	return len(st.ContainerStatuses) > 0 || len(st.InitContainerStatuses) > 0 || st.AllocatedResources != nil || st.Resources != nil ||
		resourcehelper.IsPodResizeInfeasible(pod)
}

// asksForAll tells whether each container asks for some amount of all that is in list.
func asksForAll(containers []corev1.Container, list corev1.ResourceList) bool {
	for i := range containers {
		for name := range list {
			if _, ok := containers[i].Resources.Requests[name]; !ok {
				return false
			}
		}
	}
	return true
}
