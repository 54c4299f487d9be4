// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolumeclaim has the defaults and the validation of claim specs, which PersistentVolumeClaims,
// StatefulSets and ephemeral volumes share. Touch it when a claim can ask for something new. See
// https://kubernetes.io/docs/concepts/storage/persistent-volumes/.
package persistentvolumeclaim

import (
	corev1 "k8s.io/api/core/v1"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

// SetDefaults fills in a claim spec.
func SetDefaults(spec *corev1.PersistentVolumeClaimSpec) {
	if spec.VolumeMode == nil {
		filesystem := corev1.PersistentVolumeFilesystem
		spec.VolumeMode = &filesystem
	}
	quantity.SetDefaults(spec.Resources.Limits)
	quantity.SetDefaults(spec.Resources.Requests)
}

// Class is the storage class that a claim asks for: the old annotation wins. ok is false if it asks for none in particular.
func Class(c *corev1.PersistentVolumeClaim) (name string, ok bool) {
	if name, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name, true
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName, true
	}
	return "", false
}

// DropUnsupported takes away what upstream ignores without a word unless the old spec already has it: a data source in
// another namespace (KEP-3294, alpha). old is nil on create.
func DropUnsupported(spec, old *corev1.PersistentVolumeClaimSpec) {
	if namespace(spec.DataSourceRef) != "" && (old == nil || old.DataSourceRef == nil) {
		spec.DataSourceRef = nil
	}
}

// DropUnknownSource takes away a dataSource that is neither a claim nor a snapshot, as it always was; other kinds need a
// dataSourceRef (KEP-1495). old is nil on create.
func DropUnknownSource(spec, old *corev1.PersistentVolumeClaimSpec) {
	if old != nil && (old.DataSource != nil || old.DataSourceRef != nil) || spec.DataSourceRef != nil || spec.DataSource == nil {
		return
	}
	group := ""
	if spec.DataSource.APIGroup != nil {
		group = *spec.DataSource.APIGroup
	}
	switch [2]string{group, spec.DataSource.Kind} {
	case [2]string{"", "PersistentVolumeClaim"}, [2]string{"snapshot.storage.k8s.io", "VolumeSnapshot"}:
	default:
		spec.DataSource = nil
	}
}

// NormalizeSources makes dataSource and dataSourceRef say the same if only one of them is set.
func NormalizeSources(spec *corev1.PersistentVolumeClaimSpec) {
	source, ref := spec.DataSource, spec.DataSourceRef
	switch {
	case source != nil && ref == nil:
		spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: clone(source.APIGroup), Kind: source.Kind, Name: source.Name}
	case ref != nil && source == nil && namespace(ref) == "":
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: clone(ref.APIGroup), Kind: ref.Kind, Name: ref.Name}
	}
}

func namespace(ref *corev1.TypedObjectReference) string {
	if ref == nil || ref.Namespace == nil {
		return ""
	}
	return *ref.Namespace
}

func clone(s *string) *string {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}
