// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeclaim

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

var resizeStatuses = sets.New(
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible,
)

func validate(_ context.Context, c *corev1.PersistentVolumeClaim) field.ErrorList {
	return persistentvolumeclaim.ValidateSpec(&c.Spec, field.NewPath("spec"), persistentvolumeclaim.Leniency{})
}

// validateUpdate keeps a claim as it is, so that nobody gets around quotas and limits by changing it. It may be bound, a
// bound one may grow or change its attributes, and a class may be filled in.
func validateUpdate(_ context.Context, c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	path := field.NewPath("spec")
	errs := persistentvolumeclaim.ValidateSpec(&c.Spec, path, persistentvolumeclaim.Keep(&old.Spec))
	bound := c.Status.Phase == corev1.ClaimBound

	now, before := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	if before.VolumeName == "" {
		before.VolumeName = now.VolumeName
	}
	if movesClass(c, old) {
		now.StorageClassName = nil
	} else {
		if a, b := c.Annotations[corev1.BetaStorageClassAnnotation], old.Annotations[corev1.BetaStorageClassAnnotation]; a != b {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations", corev1.BetaStorageClassAnnotation), a, apivalidation.FieldImmutableErrorMsg))
		}
		if fillsClass(c, old) {
			now.StorageClassName = before.StorageClassName
		}
	}
	if bound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = old.Spec.Resources.Requests[corev1.ResourceStorage]
		}
		now.VolumeAttributesClassName = before.VolumeAttributesClassName
	}
	if !apiequality.Semantic.DeepEqual(now, before) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v", diff.Diff(*before, *now))))
	}

	// A size that could not be reached may be taken back, though not below what there is.
	size, was, actual := storage(c.Spec.Resources.Requests), storage(old.Spec.Resources.Requests), storage(old.Status.Capacity)
	if size.Cmp(was) < 0 && size.Cmp(actual) <= 0 {
		errs = append(errs, field.Forbidden(path.Child("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	errs = append(errs, apivalidation.ValidateImmutableField(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	return append(errs, validateAttributesClassUpdate(c, old, path.Child("volumeAttributesClassName"))...)
}

func storage(list corev1.ResourceList) resource.Quantity { return list[corev1.ResourceStorage] }

// movesClass reports whether the class goes from the old annotation to the field.
func movesClass(c, old *corev1.PersistentVolumeClaim) bool {
	was, ok := old.Annotations[corev1.BetaStorageClassAnnotation]
	now, kept := c.Annotations[corev1.BetaStorageClassAnnotation]
	return ok && old.Spec.StorageClassName == nil && c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == was && (!kept || now == was)
}

// fillsClass reports whether a claim without a class gets one.
func fillsClass(c, old *corev1.PersistentVolumeClaim) bool {
	was, ok := old.Annotations[corev1.BetaStorageClassAnnotation]
	return c.Spec.StorageClassName != nil && old.Spec.StorageClassName == nil && (!ok || *c.Spec.StorageClassName == was)
}

func validateAttributesClassUpdate(c, old *corev1.PersistentVolumeClaim, path *field.Path) field.ErrorList {
	class := c.Spec.VolumeAttributesClassName
	if old.Status.CurrentVolumeAttributesClassName == nil || apiequality.Semantic.DeepEqual(class, old.Spec.VolumeAttributesClassName) {
		return nil
	}
	switch {
	case class == nil:
		return field.ErrorList{field.Forbidden(path, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil")}
	case *class == "":
		return field.ErrorList{field.Forbidden(path, "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil")}
	}
	return nil
}

func validateStatus(_ context.Context, c, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	if len(c.Spec.AccessModes) == 0 {
		errs = append(errs, field.Required(field.NewPath("Spec", "accessModes"), ""))
	}
	for _, name := range quantity.Names(c.Status.Capacity) {
		errs = append(errs, persistentvolumeclaim.ValidateAmount(c.Status.Capacity[name], path.Child("capacity").Key(string(name)))...)
	}
	errs = append(errs, validateHealth(c.Status.HealthStatus, path.Child("healthStatus", "healthConditions"))...)
	p := path.Child("allocatedResourceStatuses")
	for _, name := range slices.Sorted(maps.Keys(c.Status.AllocatedResourceStatuses)) {
		errs = append(errs, persistentvolumeclaim.ValidateResourceKey(string(name), p)...)
		if !resizeStatuses.Has(c.Status.AllocatedResourceStatuses[name]) {
			errs = append(errs, field.NotSupported(p, name, sets.List(resizeStatuses)))
		}
	}
	return append(errs, persistentvolumeclaim.ValidateStatusAmounts(c.Status.AllocatedResources, path.Child("allocatedResources"))...)
}

func validateHealth(h *corev1.VolumeHealthStatus, path *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	var errs field.ErrorList
	for i, c := range h.HealthConditions {
		if c.Reason == "" {
			continue
		}
		for _, msg := range metav1validation.IsValidConditionReason(c.Reason) {
			errs = append(errs, field.Invalid(path.Index(i).Child("reason"), c.Reason, msg))
		}
	}
	return errs
}

func warnings(_ context.Context, c, _ *corev1.PersistentVolumeClaim) []string {
	var out []string
	if _, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		out = append(out, fmt.Sprintf(`%s: deprecated since v1.8; use "storageClassName" attribute instead`,
			field.NewPath("metadata", "annotations").Key(corev1.BetaStorageClassAnnotation)))
	}
	return append(out, persistentvolumeclaim.Warnings(&c.Spec, field.NewPath("spec"))...)
}
