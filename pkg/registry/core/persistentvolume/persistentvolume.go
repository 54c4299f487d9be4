// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolume serves PersistentVolumes: storage that claims can be bound to. Touch it when their rules change;
// what stands in the spec is checked in pkg/apis/core/persistentvolume.
package persistentvolume

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolume"
	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes persistentvolumes.
var Resource = &registry.Resource[*corev1.PersistentVolume]{
	Kind:             corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
	Name:             "persistentvolumes",
	ShortNames:       []string{"pv"},
	ClusterScoped:    true,
	New:              func() *corev1.PersistentVolume { return &corev1.PersistentVolume{} },
	NewList:          func() runtime.Object { return &corev1.PersistentVolumeList{} },
	Default:          setDefaults,
	PrepareForCreate: func(_ context.Context, v *corev1.PersistentVolume) { begin(v) },
	Validate:         validate,
	ValidateUpdate:   validateUpdate,
	Warnings:         warnings,
	Status:           &registry.Status[*corev1.PersistentVolume]{PrepareForUpdate: noteTransition},
	ReturnDeleted:    true,
	Columns:          columns,
	Row:              row,
}

func setDefaults(v *corev1.PersistentVolume) {
	if v.Status.Phase == "" {
		v.Status.Phase = corev1.VolumePending
	}
	if v.Spec.PersistentVolumeReclaimPolicy == "" {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	if v.Spec.VolumeMode == nil {
		filesystem := corev1.PersistentVolumeFilesystem
		v.Spec.VolumeMode = &filesystem
	}
	persistentvolume.SetSourceDefaults(&v.Spec)
}

func begin(v *corev1.PersistentVolume) {
	now := metav1.Now()
	v.Status.Phase, v.Status.LastPhaseTransitionTime = corev1.VolumePending, &now
}

// noteTransition keeps the time of the last change of phase, unless the client says it.
func noteTransition(_ context.Context, v, old *corev1.PersistentVolume) {
	at, before := v.Status.LastPhaseTransitionTime, old.Status.LastPhaseTransitionTime
	switch {
	case v.Status.Phase == old.Status.Phase:
		if at == nil {
			v.Status.LastPhaseTransitionTime = before
		}
	case at == nil || at.Equal(before):
		now := metav1.Now()
		v.Status.LastPhaseTransitionTime = &now
	}
}
