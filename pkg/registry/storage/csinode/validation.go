// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package csinode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/volumesource"
	"minik8s.io/minik8s/pkg/registry"
)

const (
	maxNodeID           = 256
	maxHealthConditions = 16
	maxHealthReason     = 256
	maxHealthMessage    = 1024
)

var healthStatuses = sets.New(storagev1.StorageUnreachable, storagev1.StorageDegraded)

func validate(_ context.Context, n *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range n.Spec.Drivers {
		d, path := &n.Spec.Drivers[i], field.NewPath("spec", "drivers").Index(i)
		errs = append(errs, validateDriver(d, path)...)
		if names.Has(d.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), d.Name))
		}
		names.Insert(d.Name)
	}
	return errs
}

func validateDriver(d *storagev1.CSINodeDriver, path *field.Path) field.ErrorList {
	errs := volumesource.ValidateDriverName(d.Name, path.Child("name"))
	errs = append(errs, volumesource.Required(d.NodeID, path.Child("nodeID"))...)
	if len(d.NodeID) > maxNodeID {
		errs = append(errs, field.Invalid(path.Child("nodeID"), d.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeID)))
	}
	if a := d.Allocatable; a != nil && a.Count != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*a.Count), path.Child("allocatable", "count"))...)
	}
	keys := sets.New[string]()
	for _, key := range d.TopologyKeys {
		errs = append(errs, volumesource.Required(key, path)...)
		if keys.Has(key) {
			errs = append(errs, field.Duplicate(path, key))
		}
		keys.Insert(key)
		for _, msg := range validation.IsQualifiedName(key) {
			errs = append(errs, field.Invalid(path, key, msg))
		}
	}
	return errs
}

// validateUpdate lets drivers come and go, and a driver change only how many volumes it takes.
func validateUpdate(ctx context.Context, n, old *storagev1.CSINode) field.ErrorList {
	errs := append(validate(ctx, n), registry.ValidateMetadata(n, false, apivalidation.NameIsDNSSubdomain)...)
	for _, before := range old.Spec.Drivers {
		for _, now := range n.Spec.Drivers {
			if now.Name == before.Name {
				now.Allocatable, before.Allocatable = nil, nil
				errs = append(errs, apivalidation.ValidateImmutableField(now, before, field.NewPath("spec", "drivers"))...)
			}
		}
	}
	return errs
}

func validateStatus(_ context.Context, n, _ *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, h := range n.Status.StorageHealth {
		path := field.NewPath("status", "storageHealth").Index(i)
		if names.Has(h.Name) {
			errs = append(errs, field.Duplicate(path, h.Name))
		}
		names.Insert(h.Name)
		errs = append(errs, volumesource.ValidateDriverName(h.Name, path.Child("name"))...)
		conditions := path.Child("healthConditions")
		if len(h.HealthConditions) > maxHealthConditions {
			errs = append(errs, field.TooMany(conditions, len(h.HealthConditions), maxHealthConditions))
			continue
		}
		for j := range h.HealthConditions {
			errs = append(errs, validateHealth(&h.HealthConditions[j], conditions.Index(j))...)
		}
	}
	return errs
}

func validateHealth(c *storagev1.StorageHealthCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !healthStatuses.Has(c.Status) {
		errs = append(errs, field.NotSupported(path.Child("status"), c.Status, sets.List(healthStatuses)))
	}
	if p := path.Child("reason"); c.Reason == "" {
		errs = append(errs, field.Required(p, ""))
	} else {
		for _, msg := range metav1validation.IsValidConditionReason(c.Reason) {
			errs = append(errs, field.Invalid(p, c.Reason, msg))
		}
		if len(c.Reason) > maxHealthReason {
			errs = append(errs, field.TooLong(p, "", maxHealthReason))
		}
	}
	if len(c.Message) > maxHealthMessage {
		errs = append(errs, field.TooLong(path.Child("message"), "", maxHealthMessage))
	}
	if c.AccessMode != nil {
		errs = append(errs, persistentvolumeclaim.ValidateAccessModes([]corev1.PersistentVolumeAccessMode{*c.AccessMode}, path.Child("accessMode"))...)
	}
	return append(errs, persistentvolumeclaim.ValidateVolumeMode(c.VolumeMode, path.Child("volumeMode"))...)
}
