// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumebinder

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// preResizeCapacity is the annotation of a volume that was made larger while its file system was not.
const preResizeCapacity = "volume.alpha.kubernetes.io/pre-resize-capacity"

// reserve writes the claim into the volume and returns what came of it. From then on nobody else gets the volume.
func reserve(ctx context.Context, c client.Client, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	reserved, dirty, err := volumehelper.GetBindVolumeToClaim(volume, claim)
	if err != nil {
		return nil, fmt.Errorf("referring to the claim: %w", err)
	}
	if dirty {
		if err := c.Update(ctx, reserved); err != nil {
			return nil, fmt.Errorf("binding volume %q to the claim: %w", volume.Name, err)
		}
	}
	return reserved, nil
}

// finish makes the three writes that follow reserve. It changes both objects.
func finish(ctx context.Context, c client.Client, volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	if err := setVolumePhase(ctx, c, volume, corev1.VolumeBound, ""); err != nil {
		return err
	}
	if completeBinding(claim, volume.Name) {
		if err := c.Update(ctx, claim); err != nil {
			return fmt.Errorf("binding the claim to volume %q: %w", volume.Name, err)
		}
	}
	return setClaimPhase(ctx, c, claim, corev1.ClaimBound, volume)
}

// completeBinding puts the volume into the claim and tells whether that changed it.
func completeBinding(claim *corev1.PersistentVolumeClaim, volume string) bool {
	changed := false
	if claim.Spec.VolumeName != volume {
		claim.Spec.VolumeName = volume
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volumehelper.AnnBoundByController, "yes")
		changed = true
	}
	if !metav1.HasAnnotation(claim.ObjectMeta, volumehelper.AnnBindCompleted) {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volumehelper.AnnBindCompleted, "yes")
		changed = true
	}
	return changed
}

// rollBack makes a volume free whose claim is bound elsewhere; one that a user meant for the claim stays meant for it.
func rollBack(ctx context.Context, c client.Client, volume *corev1.PersistentVolume) error {
	if metav1.HasAnnotation(volume.ObjectMeta, volumehelper.AnnBoundByController) {
		volume.Spec.ClaimRef = nil
		delete(volume.Annotations, volumehelper.AnnBoundByController)
	} else {
		volume.Spec.ClaimRef.UID = ""
	}
	if err := c.Update(ctx, volume); err != nil {
		return fmt.Errorf("taking the claim from the volume: %w", err)
	}
	return setVolumePhase(ctx, c, volume, corev1.VolumeAvailable, "")
}

// setVolumePhase writes the phase unless the volume has it.
func setVolumePhase(ctx context.Context, c client.Client, volume *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) error {
	if volume.Status.Phase == phase {
		return nil
	}
	volume.Status.Phase, volume.Status.Message = phase, message
	if err := c.Status().Update(ctx, volume); err != nil {
		return fmt.Errorf("writing phase %s of volume %q: %w", phase, volume.Name, err)
	}
	return nil
}

// setClaimPhase writes the status that the claim has with that phase and volume (nil for none), if it is another one.
func setClaimPhase(
	ctx context.Context, c client.Client, claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, volume *corev1.PersistentVolume,
) error {
	status, err := claimStatus(claim, phase, volume)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(claim.Status, status) {
		return nil
	}
	claim.Status = status
	if err := c.Status().Update(ctx, claim); err != nil {
		return fmt.Errorf("writing phase %s of the claim: %w", phase, err)
	}
	return nil
}

// claimStatus is the status of a claim with that phase and volume. The capacity is copied when the claim becomes bound
// and not later: then it may differ because the file system has yet to grow. The attributes class is the resizer's
// after that.
func claimStatus(
	claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, volume *corev1.PersistentVolume,
) (corev1.PersistentVolumeClaimStatus, error) {
	status := *claim.Status.DeepCopy()
	before := status.Phase
	status.Phase = phase
	if volume == nil {
		status.AccessModes, status.Capacity, status.CurrentVolumeAttributesClassName = nil, nil, nil
		return status, nil
	}
	status.AccessModes = slices.Clone(volume.Spec.AccessModes)
	if before == phase {
		return status, nil
	}
	capacity, ok := volume.Spec.Capacity[corev1.ResourceStorage]
	if !ok {
		return status, fmt.Errorf("PersistentVolume %q is without a storage capacity", volume.Name)
	}
	if text, ok := volume.Annotations[preResizeCapacity]; ok {
		if !quantity.Expensive(text) {
			if smaller, err := resource.ParseQuantity(text); err == nil {
				capacity = smaller
			}
		}
		if status.Capacity == nil {
			status.Capacity = corev1.ResourceList{}
		}
		status.Capacity[corev1.ResourceStorage] = capacity
	} else if has, ok := status.Capacity[corev1.ResourceStorage]; !ok || has.Cmp(capacity) != 0 {
		status.Capacity = volume.Spec.Capacity.DeepCopy()
	}
	if before == corev1.ClaimPending && phase == corev1.ClaimBound {
		status.CurrentVolumeAttributesClassName = volume.Spec.VolumeAttributesClassName
	}
	return status, nil
}
