// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package csidriver serves CSIDrivers: what storage drivers want of Kubernetes. Touch it when they may want something new.
package csidriver

import (
	"context"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"minik8s.io/minik8s/pkg/registry"
)

var docs = storagev1.CSIDriverSpec{}.SwaggerDoc()

// Resource describes csidrivers.
var Resource = &registry.Resource[*storagev1.CSIDriver]{
	Kind:          storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
	Name:          "csidrivers",
	ClusterScoped: true,
	New:           func() *storagev1.CSIDriver { return &storagev1.CSIDriver{} },
	NewList:       func() runtime.Object { return &storagev1.CSIDriverList{} },
	Default:       setDefaults,
	// The generation starts at 0 here, so it is not left to Spec.
	PrepareForUpdate: func(_ context.Context, d, old *storagev1.CSIDriver) {
		if !apiequality.Semantic.DeepEqual(d.Spec, old.Spec) {
			d.Generation = old.Generation + 1
		}
	},
	RequireResourceVersion: true,
	Validate:               validate,
	ValidateUpdate:         validateUpdate,
	Warnings:               warnings,
	ReturnDeleted:          true,
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("AttachRequired", "boolean", docs["attachRequired"]),
		registry.Column("PodInfoOnMount", "boolean", docs["podInfoOnMount"]),
		registry.Column("StorageCapacity", "boolean", docs["storageCapacity"]),
		registry.Column("TokenRequests", "string", docs["tokenRequests"]),
		registry.Column("RequiresRepublish", "boolean", docs["requiresRepublish"]),
		registry.Column("Modes", "string", docs["volumeLifecycleModes"]),
		registry.AgeColumn,
	},
	Row: row,
}

func setDefaults(d *storagev1.CSIDriver) {
	s := &d.Spec
	setPointer(&s.AttachRequired, true)
	setPointer(&s.PodInfoOnMount, false)
	setPointer(&s.StorageCapacity, false)
	setPointer(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	setPointer(&s.RequiresRepublish, false)
	setPointer(&s.SELinuxMount, false)
	setPointer(&s.PreventPodSchedulingIfMissing, false)
}

func setPointer[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

func row(d *storagev1.CSIDriver) []any {
	s := &d.Spec
	var modes []string
	for _, m := range s.VolumeLifecycleModes {
		modes = append(modes, string(m))
	}
	tokens := "<unset>"
	if s.TokenRequests != nil {
		var audiences []string
		for _, t := range s.TokenRequests {
			audiences = append(audiences, t.Audience)
		}
		tokens = strings.Join(audiences, ",")
	}
	return []any{
		d.Name, *s.AttachRequired, *s.PodInfoOnMount, *s.StorageCapacity, tokens, *s.RequiresRepublish, strings.Join(modes, ","),
		registry.Age(d.CreationTimestamp),
	}
}

func warnings(_ context.Context, d, old *storagev1.CSIDriver) []string {
	s := &d.Spec
	if s.ServiceAccountTokenInSecrets != nil || len(s.TokenRequests) == 0 || old != nil && apiequality.Semantic.DeepEqual(s.TokenRequests, old.Spec.TokenRequests) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}
