// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package tainteviction

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// noExecute returns the taints of a node that evict pods.
func noExecute(node *corev1.Node) []corev1.Taint {
	var found []corev1.Taint
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute {
			found = append(found, taint)
		}
	}
	return found
}

// longest is how many seconds a duration can have. More of them are as good as no limit, and not a negative one.
const longest = int64(math.MaxInt64 / time.Second)

// Tolerance says how long a pod stays on a node with these NoExecute taints. forever is true when it tolerates them all
// without a limit; otherwise it stays for the shortest of the limits, which is 0 for a taint that it does not tolerate. Of several
// tolerations for a taint the first counts.
func Tolerance(taints []corev1.Taint, tolerations []corev1.Toleration) (limit time.Duration, forever bool) {
	forever = true
	for i := range taints {
		at := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(klog.Background(), &taints[i], true) })
		if at < 0 {
			return 0, false
		}
		seconds := tolerations[at].TolerationSeconds
		if seconds == nil {
			continue
		}
		if stay := time.Duration(min(max(0, *seconds), longest)) * time.Second; forever || stay < limit {
			limit, forever = stay, false
		}
	}
	return limit, forever
}

// since is when the time that a pod is tolerated for began: with the youngest taint or with the pod's coming to the node,
// whichever was later. Taints without a time count from now.
func since(pod *corev1.Pod, taints []corev1.Taint, now time.Time) time.Time {
	var start time.Time
	for _, taint := range taints {
		if taint.TimeAdded == nil {
			return now
		}
		if taint.TimeAdded.After(start) {
			start = taint.TimeAdded.Time
		}
	}
	scheduled := pod.CreationTimestamp.Time
	if c := pods.Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		scheduled = c.LastTransitionTime.Time
	}
	if scheduled.After(start) {
		start = scheduled
	}
	if start.After(now) {
		return now
	}
	return start
}
