// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podstatus writes what the scheduler has to say into a pod's status.
// Touch it when the way of writing status changes.
package podstatus

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// SetCondition sets a condition in a status and reports whether that changed it.
// The transition time changes only with the condition's status.
func SetCondition(status *corev1.PodStatus, want corev1.PodCondition) bool {
	for i := range status.Conditions {
		have := &status.Conditions[i]
		if have.Type != want.Type {
			continue
		}
		if have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
		}
		if *have == want {
			return false
		}
		*have = want
		return true
	}
	status.Conditions = append(status.Conditions, want)
	return true
}

// Patch writes the difference between a pod's status and a new one. The
// UID in the patch makes it fail on another pod of the same name.
func Patch(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, status *corev1.PodStatus) error {
	old, err := json.Marshal(corev1.Pod{Status: pod.Status})
	if err != nil {
		return fmt.Errorf("encoding status of pod %q: %w", klog.KObj(pod), err)
	}
	updated, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: *status})
	if err != nil {
		return fmt.Errorf("encoding new status of pod %q: %w", klog.KObj(pod), err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(old, updated, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("creating patch for pod %q: %w", klog.KObj(pod), err)
	}
	_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patching status of pod %q: %w", klog.KObj(pod), err)
	}
	return nil
}
