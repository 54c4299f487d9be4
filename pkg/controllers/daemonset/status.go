// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// Status returns the status of a DaemonSet with these pods. Of several pods on a node the oldest counts. recheck is the time
// until the next ready pod has been ready for long enough; 0 when there is none to wait for.
func Status(ds *appsv1.DaemonSet, nodes []Node, byNode map[string][]*corev1.Pod, hash string, now time.Time) (status appsv1.DaemonSetStatus, recheck time.Duration) {
	status = appsv1.DaemonSetStatus{
		ObservedGeneration: ds.Generation,
		CollisionCount:     ds.Status.CollisionCount,
		Conditions:         ds.Status.Conditions,
	}
	var counted []*corev1.Pod
	for _, node := range nodes {
		here := byNode[node.Name]
		switch {
		case !node.ShouldRun:
			if len(here) > 0 {
				status.NumberMisscheduled++
			}
			continue
		case len(here) == 0:
			status.DesiredNumberScheduled++
			continue
		}
		status.DesiredNumberScheduled++
		status.CurrentNumberScheduled++
		pod := byAge(here)[0]
		counted = append(counted, pod)
		if pods.IsReady(pod) {
			status.NumberReady++
			if pods.IsAvailable(pod, ds.Spec.MinReadySeconds, now) {
				status.NumberAvailable++
			}
		}
		if isUpdated(ds, pod, hash) {
			status.UpdatedNumberScheduled++
		}
	}
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	return status, pods.NextAvailable(counted, ds.Spec.MinReadySeconds, now)
}
