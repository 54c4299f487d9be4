// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package nodeshutdown

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/kubelet/internal/podspec"
)

// Period is how long the pods of a priority, up to the next one, have to end.
type Period struct {
	Priority int32
	Grace    time.Duration
}

// Periods are those that a configuration asks for, the lowest priority first: byPriority (KEP-2712), or else all of total but
// critical for the pods that are not critical, and critical for those that are. None: nothing is asked for.
func Periods(total, critical time.Duration, byPriority []kubeletconfigv1beta1.ShutdownGracePeriodByPodPriority) []Period {
	var out []Period
	for _, p := range byPriority {
		out = append(out, Period{Priority: p.Priority, Grace: time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
	}
	if len(out) == 0 && total > 0 && critical <= total {
		out = []Period{{Grace: (total - critical).Truncate(time.Second)}, {Priority: podspec.CriticalPriority, Grace: critical.Truncate(time.Second)}}
	}
	slices.SortStableFunc(out, func(a, b Period) int { return cmp.Compare(a.Priority, b.Priority) })
	return out
}

// whole is how long all take one after the other.
func whole(periods []Period) time.Duration {
	var sum time.Duration
	for _, p := range periods {
		sum += p.Grace
	}
	return sum
}

// place is which of the periods is a pod's: the last that is not above its priority, or the first.
func place(periods []Period, pod *corev1.Pod) int {
	priority := ptr.Deref(pod.Spec.Priority, 0)
	i, found := slices.BinarySearchFunc(periods, priority, func(p Period, want int32) int { return cmp.Compare(p.Priority, want) })
	if found {
		return i
	}
	return max(i-1, 0)
}
