// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SortForDeletion orders pods so that those which are missed least come first: not assigned to a node, then by phase, not
// ready, of low controller.kubernetes.io/pod-deletion-cost, on a node with many related pods, ready for a short time,
// restarted often, young. related is the number of related pods per node. Times are compared by magnitude only, which
// spreads the choice over pods of a similar age (KEP-2185); the UID decides among them.
func SortForDeletion(pods []*corev1.Pod, related map[string]int, now time.Time) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		if c := compareBool(a.Spec.NodeName != "", b.Spec.NodeName != ""); c != 0 {
			return c
		}
		if c := cmp.Compare(phaseRank(a), phaseRank(b)); c != 0 {
			return c
		}
		if c := compareBool(IsReady(a), IsReady(b)); c != 0 {
			return c
		}
		if c := cmp.Compare(DeletionCost(a), DeletionCost(b)); c != 0 {
			return c
		}
		if c := cmp.Compare(related[b.Spec.NodeName], related[a.Spec.NodeName]); c != 0 {
			return c
		}
		if IsReady(a) && IsReady(b) {
			if c := compareAge(a, b, readySince(a), readySince(b), now); c != 0 {
				return c
			}
		}
		if c := compareRestarts(a, b); c != 0 {
			return c
		}
		return compareAge(a, b, a.CreationTimestamp, b.CreationTimestamp, now)
	})
}

// DeletionCost is the value of the annotation controller.kubernetes.io/pod-deletion-cost; 0 when it is absent or not a
// plain 32-bit number.
func DeletionCost(pod *corev1.Pod) int32 {
	value, ok := pod.Annotations[corev1.PodDeletionCost]
	if !ok || strings.HasPrefix(value, "+") || (len(value) > 1 && (value[0] == '0' || strings.HasPrefix(value, "-0"))) {
		return 0
	}
	cost, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case !a:
		return -1
	}
	return 1
}

func phaseRank(pod *corev1.Pod) int {
	switch pod.Status.Phase {
	case corev1.PodPending:
		return 0
	case corev1.PodUnknown:
		return 1
	}
	return 2
}

func readySince(pod *corev1.Pod) metav1.Time {
	if c := Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime
	}
	return metav1.Time{}
}

// compareAge puts the younger of two points in time first; a missing one counts as the youngest.
func compareAge(a, b *corev1.Pod, ta, tb metav1.Time, now time.Time) int {
	if ta.Equal(&tb) {
		return 0
	}
	if ta.IsZero() || tb.IsZero() {
		return compareBool(!ta.IsZero(), !tb.IsZero())
	}
	if c := cmp.Compare(magnitude(now.Sub(ta.Time)), magnitude(now.Sub(tb.Time))); c != 0 {
		return c
	}
	return cmp.Compare(a.UID, b.UID)
}

func magnitude(d time.Duration) int {
	if d <= 0 {
		return -1
	}
	return int(math.Log2(float64(d)))
}

// compareRestarts puts the pod whose containers restarted more often first; sidecars only decide a tie.
func compareRestarts(a, b *corev1.Pod) int {
	regularA, sidecarA := maxRestarts(a)
	regularB, sidecarB := maxRestarts(b)
	return cmp.Or(cmp.Compare(regularB, regularA), cmp.Compare(sidecarB, sidecarA))
}

func maxRestarts(pod *corev1.Pod) (regular, sidecar int32) {
	for i := range pod.Status.ContainerStatuses {
		regular = max(regular, pod.Status.ContainerStatuses[i].RestartCount)
	}
	restartable := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		policy := pod.Spec.InitContainers[i].RestartPolicy
		restartable[pod.Spec.InitContainers[i].Name] = policy != nil && *policy == corev1.ContainerRestartPolicyAlways
	}
	for i := range pod.Status.InitContainerStatuses {
		if status := &pod.Status.InitContainerStatuses[i]; restartable[status.Name] {
			sidecar = max(sidecar, status.RestartCount)
		}
	}
	return regular, sidecar
}
