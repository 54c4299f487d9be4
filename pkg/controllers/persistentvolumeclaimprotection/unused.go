// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeclaimprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// note keeps the condition Unused of a claim, which tells since when no pod has referred to it (KEP 5541).
func (r *Reconciler) note(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	users, err := pods.WithClaim(ctx, r.Client, claim.Namespace, claim.Name)
	if err != nil {
		return err
	}
	used := slices.ContainsFunc(users, func(p *corev1.Pod) bool { return refers(p, claim) })
	if !used && unused(claim, false, metav1.Time{}) != nil {
		if used, err = r.anyLive(ctx, claim, refers); err != nil {
			return err
		}
	}
	conditions := unused(claim, used, metav1.NewTime(r.Clock.Now()))
	if conditions == nil {
		return nil
	}
	claim.Status.Conditions = conditions
	if err := r.Client.Status().Update(ctx, claim); err != nil {
		return fmt.Errorf("noting whether the claim is used: %w", err)
	}
	return nil
}

// unused are the conditions of a claim that has pods which refer to it or not, nil if they are right.
func unused(claim *corev1.PersistentVolumeClaim, used bool, now metav1.Time) []corev1.PersistentVolumeClaimCondition {
	want := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue, LastTransitionTime: now,
		Reason: "NoPodsUsingPVC", Message: "No pods are currently referencing this PVC",
	}
	if used {
		want.Status, want.Reason, want.Message = corev1.ConditionFalse, "PodUsingPVC", "A pod is currently referencing this PVC"
	}
	conditions := slices.Clone(claim.Status.Conditions)
	i := slices.IndexFunc(conditions, func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == want.Type })
	switch {
	case i < 0:
		return append(conditions, want)
	case conditions[i].Status == want.Status:
		return nil
	}
	conditions[i] = want
	return conditions
}

// refers tells whether a pod that has not ended refers to the claim, on a node or not.
func refers(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	volume, ok := used(pod)[claim.Name]
	return ok && !pods.IsStopped(pod) && (volume.PersistentVolumeClaim != nil || ephemeral.VolumeIsForPod(pod, claim) == nil)
}
