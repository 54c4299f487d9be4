// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"maps"
	"slices"

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
	devices := map[string]string{}
	for _, d := range c.VolumeDevices {
		devices[d.Name] = d.DevicePath
	}
	points := sets.New[string]()
	for i, m := range c.VolumeMounts {
		p := path.Index(i)
		errs = append(errs, required(m.Name, p.Child("name"))...)
		if _, ok := volumes[m.Name]; !ok {
			errs = append(errs, field.NotFound(p.Child("name"), m.Name))
		}
		errs = append(errs, required(m.MountPath, p.Child("mountPath"))...)
		if points.Has(m.MountPath) {
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must be unique"))
		}
		points.Insert(m.MountPath)
		if _, ok := devices[m.Name]; ok {
			errs = append(errs, field.Invalid(p.Child("name"), m.Name, "must not already exist in volumeDevices"))
		}
		if slices.Contains(slices.Collect(maps.Values(devices)), m.MountPath) {
			errs = append(errs, field.Invalid(p.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices"))
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

// ValidateDevices checks the block devices of a container, which only claims can be, against the pod's valid volumes.
func ValidateDevices(c *corev1.Container, volumes map[string]corev1.VolumeSource, path *field.Path) field.ErrorList {
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	var errs field.ErrorList
	names, paths := sets.New[string](), sets.New[string]()
	for i, d := range c.VolumeDevices {
		name, at := path.Index(i).Child("name"), path.Index(i).Child("devicePath")
		errs = append(errs, required(d.Name, name)...)
		if names.Has(d.Name) {
			errs = append(errs, field.Invalid(name, d.Name, "must be unique"))
		}
		source, ok := volumes[d.Name]
		switch {
		case !ok:
			errs = append(errs, field.NotFound(name, d.Name))
		case source.PersistentVolumeClaim == nil && source.Ephemeral == nil:
			errs = append(errs, field.Invalid(name, d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		errs = append(errs, required(d.DevicePath, at)...)
		if paths.Has(d.DevicePath) {
			errs = append(errs, field.Invalid(at, d.DevicePath, "must be unique"))
		}
		if len(localpath.ValidateNoBacksteps(d.DevicePath, at)) > 0 {
			errs = append(errs, field.Invalid(at, d.DevicePath, "can not contain backsteps ('..')"))
		} else {
			paths.Insert(d.DevicePath)
		}
		if _, ok := mounts[d.Name]; ok {
			errs = append(errs, field.Invalid(name, d.Name, "must not already exist in volumeMounts"))
		}
		if slices.Contains(slices.Collect(maps.Values(mounts)), d.DevicePath) {
			errs = append(errs, field.Invalid(at, d.DevicePath, "must not already exist as a path in volumeMounts"))
		}
		if d.Name != "" {
			names.Insert(d.Name)
		}
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
