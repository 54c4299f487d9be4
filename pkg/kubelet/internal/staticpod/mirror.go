// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package staticpod

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mirror is what shows a static pod in the API. The node owns it and it refers to nothing, which is all that a node may make
// (https://kep.k8s.io/1314).
func Mirror(pod *corev1.Pod, node *corev1.Node) *corev1.Pod {
	m := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, Labels: maps.Clone(pod.Labels), Annotations: maps.Clone(pod.Annotations),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}},
		},
		Spec: *pod.Spec.DeepCopy(),
	}
	m.Annotations[corev1.MirrorPodAnnotationKey] = pod.Annotations[hashKey]
	return m
}

// Action is what is to be done about a mirror pod.
type Action int

// The actions. After Delete follows Create, when the API server has told that the mirror is gone.
const (
	Keep Action = iota
	Create
	Delete
)

// Decide compares the mirror that there is with the static pod that it shows; either is nil if there is none. status is what the
// kubelet says of the pod, nil if it has not said anything yet.
func Decide(pod, mirror *corev1.Pod, status *corev1.PodStatus) Action {
	switch {
	case pod == nil && mirror == nil:
		return Keep
	case pod == nil:
		return Delete
	case mirror == nil:
		return Create
	case mirror.DeletionTimestamp != nil, !IsMirrorOf(mirror, pod):
		return Delete
	case status != nil && ended(&mirror.Status) && !ended(status):
		return Delete // what has ended in the API never runs again
	}
	return Keep
}

func ended(s *corev1.PodStatus) bool {
	return s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
}
