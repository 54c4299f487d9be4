// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolumeclaim serves PersistentVolumeClaims: what pods ask for when they need storage that outlives them.
// Touch it when their rules change; what stands in the spec is checked in pkg/apis/core/persistentvolumeclaim.
package persistentvolumeclaim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/registry"
)

// Resource describes persistentvolumeclaims.
var Resource = &registry.Resource[*corev1.PersistentVolumeClaim]{
	Kind:       corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	Name:       "persistentvolumeclaims",
	ShortNames: []string{"pvc"},
	New:        func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
	NewList:    func() runtime.Object { return &corev1.PersistentVolumeClaimList{} },
	Default:    setDefaults,
	PrepareForCreate: func(_ context.Context, c *corev1.PersistentVolumeClaim) {
		c.Status.Phase = corev1.ClaimPending // what defaulting says too, so that nothing is written when nothing changes
		prepareSpec(&c.Spec, nil)
	},
	PrepareForUpdate: func(_ context.Context, c, old *corev1.PersistentVolumeClaim) { prepareSpec(&c.Spec, &old.Spec) },
	WholeUpdate:      true,
	Validate:         validate,
	ValidateUpdate:   validateUpdate,
	Warnings:         warnings,
	Status:           &registry.Status[*corev1.PersistentVolumeClaim]{PrepareForUpdate: prepareStatus, Validate: validateStatus},
	ReturnDeleted:    true,
	Columns:          columns,
	Row:              row,
}

func setDefaults(c *corev1.PersistentVolumeClaim) {
	if c.Status.Phase == "" {
		c.Status.Phase = corev1.ClaimPending
	}
	persistentvolumeclaim.SetDefaults(&c.Spec)
	quantity.SetDefaults(c.Status.Capacity)
	quantity.SetDefaults(c.Status.AllocatedResources)
}

// prepareSpec brings the two ways to name a data source in line. It does the same for clients that leave one out in an
// update because they do not know it.
func prepareSpec(spec, old *corev1.PersistentVolumeClaimSpec) {
	persistentvolumeclaim.DropUnsupported(spec, old)
	persistentvolumeclaim.DropUnknownSource(spec, old)
	persistentvolumeclaim.NormalizeSources(spec)
}

// prepareStatus leaves out the health of the volume (KEP-1432, alpha) unless it is there already.
func prepareStatus(_ context.Context, c, old *corev1.PersistentVolumeClaim) {
	if old.Status.HealthStatus == nil {
		c.Status.HealthStatus = nil
	}
}
