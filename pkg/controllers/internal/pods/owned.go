// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// ControllerField is the name of the index that ControllerOf fills.
const ControllerField = "metadata.controller.uid"

// orphan is what pods without a controller are found by.
const orphan = "none"

// ControllerOf returns what a pod is found by in the index ControllerField: the UID of its controller. So a workload does not
// have to look at all pods of its namespace.
func ControllerOf(pod client.Object) []string {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		return []string{string(ref.UID)}
	}
	return []string{orphan}
}

// OwnedBy lists the pods whose controller has this UID. They belong to the cache: nobody may change them.
func OwnedBy(ctx context.Context, reader client.Reader, namespace string, owner types.UID, opts ...client.ListOption) ([]*corev1.Pod, error) {
	return list(ctx, reader, namespace, string(owner), opts...)
}

// Candidates lists the pods that owner has to decide about: those it controls, and those without a controller that selector
// matches. They belong to the cache: nobody may change them.
func Candidates(ctx context.Context, reader client.Reader, owner client.Object, selector labels.Selector) ([]*corev1.Pod, error) {
	// Orphans come first: one that is adopted in between is found twice then, and not missed.
	orphans, err := list(ctx, reader, owner.GetNamespace(), orphan, client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, err
	}
	owned, err := OwnedBy(ctx, reader, owner.GetNamespace(), owner.GetUID())
	if err != nil {
		return nil, err
	}
	for _, pod := range orphans {
		if !slices.ContainsFunc(owned, func(other *corev1.Pod) bool { return other.UID == pod.UID }) {
			owned = append(owned, pod)
		}
	}
	return owned, nil
}

func list(ctx context.Context, reader client.Reader, namespace, controller string, opts ...client.ListOption) ([]*corev1.Pod, error) {
	opts = append(opts, client.InNamespace(namespace), client.MatchingFields{ControllerField: controller})
	found, err := ownwrites.Peek[*corev1.Pod](ctx, reader, &corev1.PodList{}, opts...)
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return found, nil
}
