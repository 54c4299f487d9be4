// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// EventResource is the kind of object an event is about.
type EventResource string

// The kinds whose changes can make a pod schedulable. AssignedPod is any pod on
// a node; PendingPod is the waiting pod itself.
const (
	AssignedPod           EventResource = "AssignedPod"
	PendingPod            EventResource = "PendingPod"
	Node                  EventResource = "Node"
	Namespace             EventResource = "Namespace"
	PersistentVolume      EventResource = "PersistentVolume"
	PersistentVolumeClaim EventResource = "PersistentVolumeClaim"
	StorageClass          EventResource = "StorageClass"
	CSIDriver             EventResource = "CSIDriver"
	CSIStorageCapacity    EventResource = "CSIStorageCapacity"
)

// Action is a set of changes.
type Action uint32

// The changes plugins tell apart.
const (
	Add Action = 1 << iota
	Delete
	// Update is any change that has no bit of its own.
	Update
	UpdateLabels
	// UpdateTaints covers taints and spec.unschedulable of a node.
	UpdateTaints
	UpdateAllocatable
	// UpdateScaleDown is a pod that asks for less than before.
	UpdateScaleDown
	UpdateTolerations
	// UpdateGates is a scheduling gate that was removed.
	UpdateGates
)

// ClusterEvent is a change in the cluster.
type ClusterEvent struct {
	Resource EventResource
	Action   Action
}

// Matches tells whether an event that happened is among the declared ones.
func (e ClusterEvent) Matches(happened ClusterEvent) bool {
	return e.Resource == happened.Resource && e.Action&happened.Action != 0
}

// Hint looks closer at an event: false means that it cannot help the pod.
// old or new is nil for an addition or a deletion.
type Hint func(ctx context.Context, pod *PodInfo, old, new any) bool

// Requeue is an event with an optional hint; without one the event always helps.
type Requeue struct {
	Event ClusterEvent
	Hint  Hint
}

// NodeActions compares two versions of a node.
func NodeActions(old, new *corev1.Node) (a Action) {
	if old.Spec.Unschedulable != new.Spec.Unschedulable || !equality.Semantic.DeepEqual(old.Spec.Taints, new.Spec.Taints) {
		a |= UpdateTaints
	}
	if !maps.Equal(old.Labels, new.Labels) {
		a |= UpdateLabels
	}
	if !equality.Semantic.DeepEqual(old.Status.Allocatable, new.Status.Allocatable) {
		a |= UpdateAllocatable
	}
	return a
}

// PodActions compares two versions of a pod.
func PodActions(old, new *corev1.Pod) (a Action) {
	if !maps.Equal(old.Labels, new.Labels) {
		a |= UpdateLabels
	}
	if len(new.Spec.Tolerations) != len(old.Spec.Tolerations) || !equality.Semantic.DeepEqual(old.Spec.Tolerations, new.Spec.Tolerations) {
		a |= UpdateTolerations
	}
	if len(new.Spec.SchedulingGates) < len(old.Spec.SchedulingGates) {
		a |= UpdateGates
	}
	if !slices.EqualFunc(old.Spec.Containers, new.Spec.Containers, sameResources) ||
		!equality.Semantic.DeepEqual(old.Spec.Resources, new.Spec.Resources) ||
		!equality.Semantic.DeepEqual(old.Status.ContainerStatuses, new.Status.ContainerStatuses) && new.Spec.NodeName != "" {
		o, _ := podRequests(old)
		n, _ := podRequests(new)
		if smaller(o, n) {
			a |= UpdateScaleDown
		}
	}
	return a
}

func sameResources(a, b corev1.Container) bool {
	return equality.Semantic.DeepEqual(a.Resources, b.Resources)
}

func smaller(old, new Resource) bool {
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
