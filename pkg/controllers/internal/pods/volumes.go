// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// ClaimOf is the name of the PersistentVolumeClaim behind a volume of a pod, "" if none is. That of an ephemeral volume is the
// pod's only if ephemeral.VolumeIsForPod says so.
func ClaimOf(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, v)
	}
	return ""
}

// Claims are the names of the PersistentVolumeClaims of a pod, as ClaimOf has them.
func Claims(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if name := ClaimOf(pod, &pod.Spec.Volumes[i]); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// IsStopped reports whether the pod has run to its end, or is being deleted and none of its containers runs any more: nobody
// needs its volumes.
func IsStopped(pod *corev1.Pod) bool {
	s := &pod.Status
	return IsTerminal(pod) || pod.DeletionTimestamp != nil &&
		!anyRunning(s.InitContainerStatuses) && !anyRunning(s.ContainerStatuses) && !anyRunning(s.EphemeralContainerStatuses)
}

func anyRunning(statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		if s := &statuses[i].State; s.Terminated == nil && s.Waiting == nil {
			return true
		}
	}
	return false
}
