// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// maxUnavailable is how many pods of the set an update may make unavailable, at least 1. Percentages are rounded down.
// See https://kep.k8s.io/961.
func maxUnavailable(set *appsv1.StatefulSet) (int, error) {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil {
		return 1, nil
	}
	limit, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, replicasOf(set), false)
	if err != nil {
		return 0, fmt.Errorf("invalid value for maxUnavailable: %w", err)
	}
	return max(limit, 1), nil
}

// Roll returns the pods that are deleted so that they come back with the updated template: those of other revisions in the
// partition or above, the highest ordinal first, and no more than may be unavailable.
func Roll(set *appsv1.StatefulSet, replicas []*corev1.Pod, revision string, now time.Time) ([]*corev1.Pod, error) {
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil, nil
	}
	limit, err := maxUnavailable(set)
	if err != nil {
		return nil, err
	}
	unavailable := 0
	for _, pod := range replicas {
		if !isAvailable(set, pod, now) {
			unavailable++
		}
	}
	partition := 0
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		partition = int(ptr.Deref(rolling.Partition, 0))
	}
	var broken, sound []*corev1.Pod
	for _, pod := range slices.Backward(replicas[min(partition, len(replicas)):]) {
		switch {
		case !exists(pod) || isTerminating(pod) || pods.IsTerminal(pod) || pod.Labels[appsv1.StatefulSetRevisionLabel] == revision:
		case pods.IsAvailable(pod, set.Spec.MinReadySeconds, now):
			sound = append(sound, pod)
		default:
			broken = append(broken, pod)
		}
	}
	room := max(0, min(limit-unavailable, len(sound)))
	if !isParallel(set) {
		return sound[:room], nil
	}
	// A broken pod is of no use to anybody: replacing it costs nothing.
	return append(broken, sound[:room]...), nil
}
