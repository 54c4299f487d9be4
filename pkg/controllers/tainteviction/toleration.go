// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package tainteviction

import (
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

// Tolerance says how long a pod stays on a node with these NoExecute taints. forever is true when it tolerates them all
// without a limit; otherwise it stays for the shortest of the limits, which is 0 for a taint that it does not tolerate.
func Tolerance(taints []corev1.Taint, tolerations []corev1.Toleration) (limit time.Duration, forever bool) {
	forever = true
	for i := range taints {
		tolerated := false
		for j := range tolerations {
			if !tolerations[j].ToleratesTaint(klog.Background(), &taints[i], true) {
				continue
			}
			tolerated = true
			seconds := tolerations[j].TolerationSeconds
			if seconds == nil {
				continue
			}
			stay := max(0, time.Duration(*seconds)*time.Second)
			if forever || stay < limit {
				limit, forever = stay, false
			}
		}
		if !tolerated {
			return 0, false
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
