// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/localpath"
)

var (
	propagations = []corev1.MountPropagationMode{corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone}
	readOnlys    = []corev1.RecursiveReadOnlyMode{corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible}
)

// ValidateMounts checks the mounts of a container against the pod's valid volumes.
func ValidateMounts(c *corev1.Container, volumes map[string]corev1.VolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	deviceNames, devicePaths := sets.New[string](), sets.New[string]()
	for _, d := range c.VolumeDevices {
		deviceNames.Insert(d.Name)
		devicePaths.Insert(d.DevicePath)
	}
	points := sets.New[string]()
	for i, m := range c.VolumeMounts {
		p := path.Index(i)
		errs = append(errs, required(m.Name, p.Child("name"))...)
		source, ok := volumes[m.Name]
		if !ok {
			errs = append(errs, field.NotFound(p.Child("name"), m.Name))
		}
		errs = append(errs, required(m.MountPath, p.Child("mountPath"))...)
		if points.Has(m.MountPath) {
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must be unique"))
		}
		points.Insert(m.MountPath)
		if deviceNames.Has(m.Name) {
			errs = append(errs, field.Invalid(p.Child("name"), m.Name, "must not already exist in volumeDevices"))
		}
		if devicePaths.Has(m.MountPath) {
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices"))
		}
		if source.Image != nil && m.SubPathExpr != "" {
			errs = append(errs, field.Invalid(p.Child("subPathExpr"), m.SubPathExpr, "not allowed in image volume sources"))
		}
		// Upstream reports the next fields at the list and not at its element; clients know them so.
		if m.SubPath != "" {
			errs = append(errs, localpath.ValidateDescending(m.SubPath, path.Child("subPath"))...)
		}
		if m.SubPathExpr != "" {
			if m.SubPath != "" {
				errs = append(errs, field.Invalid(p.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
			}
			errs = append(errs, localpath.ValidateDescending(m.SubPathExpr, path.Child("subPathExpr"))...)
		}
		errs = append(errs, validatePropagation(m.MountPropagation, c.SecurityContext, path.Child("mountPropagation"))...)
		errs = append(errs, validateRecursiveReadOnly(&m, path.Child("recursiveReadOnly"))...)
	}
	return errs
}

func validatePropagation(mode *corev1.MountPropagationMode, sc *corev1.SecurityContext, path *field.Path) field.ErrorList {
	if mode == nil {
		return nil
	}
	var errs field.ErrorList
	if !sets.New(propagations...).Has(*mode) {
		errs = append(errs, field.NotSupported(path, *mode, propagations))
	}
	privileged := sc != nil && sc.Privileged != nil && *sc.Privileged
	if *mode == corev1.MountPropagationBidirectional && !privileged {
		errs = append(errs, field.Forbidden(path, "Bidirectional mount propagation is available only to privileged containers"))
	}
	return errs
}

func validateRecursiveReadOnly(m *corev1.VolumeMount, path *field.Path) field.ErrorList {
	if m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == corev1.RecursiveReadOnlyDisabled {
		return nil
	}
	if !sets.New(readOnlys...).Has(*m.RecursiveReadOnly) {
		return field.ErrorList{field.NotSupported(path, *m.RecursiveReadOnly, readOnlys)}
	}
	var errs field.ErrorList
	if !m.ReadOnly {
		errs = append(errs, field.Forbidden(path, "may only be specified when readOnly is true"))
	}
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		errs = append(errs, field.Forbidden(path, "may only be specified when mountPropagation is None or not specified"))
	}
	return errs
}
