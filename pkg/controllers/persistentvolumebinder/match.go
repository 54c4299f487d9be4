// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumebinder

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// bestMatch is the volume to bind a claim to, nil if there is none: one that refers to the claim, else, unless the claim
// waits for its first consumer, the smallest that will do, of those with as few access modes besides as possible. The
// node affinity of volumes has no say: the pod goes where the volume is.
func bestMatch(claim *corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume, delayed bool) (*corev1.PersistentVolume, error) {
	var own []*corev1.PersistentVolume
	free := map[string][]*corev1.PersistentVolume{}
	for _, volume := range volumes {
		switch {
		case !volumehelper.CheckAccessModes(claim, volume):
		case volumehelper.IsVolumeBoundToClaim(volume, claim):
			own = append(own, volume)
		case volume.Spec.ClaimRef == nil && !delayed:
			key := modesKey(volume.Spec.AccessModes)
			free[key] = append(free[key], volume)
		}
	}
	if found, err := volumehelper.FindMatchingVolume(claim, own, nil, nil, delayed, true); found != nil || err != nil {
		return found, err
	}
	keys := make([]string, 0, len(free))
	for key := range free {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, ","), strings.Count(b, ",")), strings.Compare(a, b))
	})
	for _, key := range keys {
		if found, err := volumehelper.FindMatchingVolume(claim, free[key], nil, nil, delayed, true); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// modesKey is the same for the same set of access modes, and has a comma for each but one.
func modesKey(modes []corev1.PersistentVolumeAccessMode) string {
	names := make([]string, len(modes))
	for i, mode := range modes {
		names[i] = string(mode)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// mismatch says why a volume that a claim names cannot be bound to it, nil if it can.
func mismatch(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	wanted, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], volume.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case volume.DeletionTimestamp != nil:
		return errors.New("the volume is marked for deletion \"" + volume.Name + "\"")
	case has.Cmp(wanted) < 0:
		return errors.New("requested PV is too small")
	case volumehelper.GetPersistentVolumeClass(volume) != volumehelper.GetPersistentVolumeClaimClass(claim):
		return errors.New("storageClassName does not match")
	case ptr.Deref(volume.Spec.VolumeAttributesClassName, "") != ptr.Deref(claim.Spec.VolumeAttributesClassName, ""):
		return errors.New("volumeAttributesClassName does not match")
	case volumehelper.CheckVolumeModeMismatches(&claim.Spec, &volume.Spec):
		return errors.New("incompatible volumeMode")
	case !volumehelper.CheckAccessModes(claim, volume):
		return errors.New("incompatible accessMode")
	}
	return nil
}
