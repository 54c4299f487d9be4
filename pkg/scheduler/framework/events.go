// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Namespace is a kind of event that upstream's list lacks: labels of namespaces
// decide on the pods that an affinity term selects.
const Namespace fwk.EventResource = "Namespace"

// Hint makes a queueing hint of a question: may this event help the pod? old or
// new is nil for an addition or a deletion.
func Hint(helps func(pod *corev1.Pod, old, new any) bool) fwk.QueueingHintFn {
	return func(_ klog.Logger, pod *corev1.Pod, old, new any) (fwk.QueueingHint, error) {
		if helps(pod, old, new) {
			return fwk.Queue, nil
		}
		return fwk.QueueSkip, nil
	}
}

// Event is a declared event with an optional hint; without one it always helps.
func Event(resource fwk.EventResource, action fwk.ActionType, hint fwk.QueueingHintFn) fwk.ClusterEventWithHint {
	return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: resource, ActionType: action}, QueueingHintFn: hint}
}

// Matches tells whether an event that happened is among the declared ones.
func Matches(declared, happened fwk.ClusterEvent) bool {
	if happened.Resource == fwk.WildCard {
		return true
	}
	switch declared.Resource {
	case happened.Resource, fwk.WildCard:
	case fwk.Pod:
		if r := happened.Resource; r != fwk.AssignedPod && r != fwk.UnscheduledPod && r != fwk.TargetPod {
			return false
		}
	default:
		return false
	}
	if happened.ActionType == fwk.Update {
		// Something that has no name: only for those who want to know of all updates.
		return declared.ActionType&fwk.Update == fwk.Update
	}
	return declared.ActionType&happened.ActionType != 0
}

// Single yields the actions of a set one by one: each is an event of its own, with a name. fwk.Update is one, of what has no name.
func Single(set fwk.ActionType) iter.Seq[fwk.ActionType] {
	return func(yield func(fwk.ActionType) bool) {
		if set == fwk.Update {
			yield(set)
			return
		}
		for rest := set; rest != 0; rest &= rest - 1 {
			if !yield(rest & -rest) {
				return
			}
		}
	}
}

// NodeActions compares two versions of a node. That it is cordoned helps nobody.
func NodeActions(old, new *corev1.Node) (a fwk.ActionType) {
	if old.Spec.Unschedulable && !new.Spec.Unschedulable || !equality.Semantic.DeepEqual(old.Spec.Taints, new.Spec.Taints) {
		a |= fwk.UpdateNodeTaint
	}
	if !maps.Equal(old.Labels, new.Labels) {
		a |= fwk.UpdateNodeLabel
	}
	if !maps.Equal(old.Annotations, new.Annotations) {
		a |= fwk.UpdateNodeAnnotation
	}
	if !equality.Semantic.DeepEqual(old.Status.Allocatable, new.Status.Allocatable) {
		a |= fwk.UpdateNodeAllocatable
	}
	if !slices.Equal(old.Status.DeclaredFeatures, new.Status.DeclaredFeatures) {
		a |= fwk.UpdateNodeDeclaredFeature
	}
	if !equality.Semantic.DeepEqual(old.Spec.PodPreemptionPolicy, new.Spec.PodPreemptionPolicy) {
		a |= fwk.UpdateNodePreemptionPolicy
	}
	if !slices.EqualFunc(old.Status.Conditions, new.Status.Conditions, func(x, y corev1.NodeCondition) bool {
		return x.Type == y.Type && x.Status == y.Status
	}) {
		a |= fwk.UpdateNodeCondition
	}
	return a
}

// PodActions compares two versions of a pod. It is 0 if they differ in nothing
// that has a name.
func PodActions(old, new *corev1.Pod) (a fwk.ActionType) {
	if !maps.Equal(old.Labels, new.Labels) {
		a |= fwk.UpdatePodLabel
	}
	if len(new.Spec.Tolerations) != len(old.Spec.Tolerations) || !equality.Semantic.DeepEqual(old.Spec.Tolerations, new.Spec.Tolerations) {
		a |= fwk.UpdatePodToleration
	}
	if len(new.Spec.SchedulingGates) == 0 && len(old.Spec.SchedulingGates) > 0 {
		a |= fwk.UpdatePodSchedulingGatesEliminated
	}
	if !equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, new.Status.ResourceClaimStatuses) ||
		!equality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, new.Status.ExtendedResourceClaimStatus) {
		a |= fwk.UpdatePodGeneratedResourceClaim
	}
	if ResourcesMayDiffer(old, new) {
		o, _ := podRequests(old)
		n, _ := podRequests(new)
		if smaller(&o, &n) {
			a |= fwk.UpdatePodScaleDown
		}
		if smaller(&n, &o) {
			a |= fwk.UpdatePodScaleUp
		}
	}
	return a
}

// WaitingPodActions is PodActions for a pod without a node, with fwk.Update for what has no name. What the
// scheduler writes itself, that the pod waits and for which node, is no event: it
// would wake the pod that it has just put to sleep.
func WaitingPodActions(old, new *corev1.Pod) fwk.ActionType {
	a := PodActions(old, new)
	if a == 0 && !equality.Semantic.DeepEqual(written(old), written(new)) {
		return fwk.Update
	}
	return a
}

// written is a pod without what the scheduler and the API server write into it.
func written(pod *corev1.Pod) *corev1.Pod {
	p := *pod
	p.ResourceVersion, p.ManagedFields, p.Status.NominatedNodeName = "", nil, ""
	p.Status.Conditions = nil
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled {
			p.Status.Conditions = append(p.Status.Conditions, c)
		}
	}
	return &p
}

// ResourcesMayDiffer tells cheaply whether two versions of a pod may take
// different amounts from their node.
func ResourcesMayDiffer(old, new *corev1.Pod) bool {
	return !slices.EqualFunc(old.Spec.Containers, new.Spec.Containers, sameResources) ||
		!slices.EqualFunc(old.Spec.InitContainers, new.Spec.InitContainers, sameResources) ||
		!equality.Semantic.DeepEqual(old.Spec.Resources, new.Spec.Resources) ||
		new.Spec.NodeName != "" && !sameAllocation(&old.Status, &new.Status) ||
		new.Spec.NodeName != "" && !slices.EqualFunc(old.Status.Conditions, new.Status.Conditions, func(a, b corev1.PodCondition) bool {
			return a.Type == b.Type && (a.Type != corev1.PodResizePending || a.Status == b.Status && a.Reason == b.Reason)
		})
}

func sameResources(a, b corev1.Container) bool {
	return equality.Semantic.DeepEqual(a.Resources, b.Resources)
}

// sameAllocation compares what a kubelet tells of a resize: of containers, of sidecars, and of the pod as a whole (KEP-1287, KEP-5419).
func sameAllocation(old, new *corev1.PodStatus) bool {
	same := func(a, b corev1.ContainerStatus) bool {
		return a.Name == b.Name && equality.Semantic.DeepEqual(a.AllocatedResources, b.AllocatedResources) && equality.Semantic.DeepEqual(a.Resources, b.Resources)
	}
	return slices.EqualFunc(old.ContainerStatuses, new.ContainerStatuses, same) &&
		slices.EqualFunc(old.InitContainerStatuses, new.InitContainerStatuses, same) &&
		equality.Semantic.DeepEqual(old.AllocatedResources, new.AllocatedResources) && equality.Semantic.DeepEqual(old.Resources, new.Resources)
}

func smaller(old, new *Resource) bool {
	if new.MilliCPU < old.MilliCPU || new.Memory < old.Memory || new.EphemeralStorage < old.EphemeralStorage {
		return true
	}
	for name, v := range old.Scalar {
		if new.Scalar[name] < v {
			return true
		}
	}
	return false
}

// AsPod returns an event's object as a pod, nil if it is none.
func AsPod(obj any) *corev1.Pod {
	p, _ := obj.(*corev1.Pod)
	return p
}

// AsNode returns an event's object as a node, nil if it is none.
func AsNode(obj any) *corev1.Node {
	n, _ := obj.(*corev1.Node)
	return n
}
