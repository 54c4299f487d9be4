// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolume

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/nodelabel"
	"minik8s.io/minik8s/pkg/apis/core/persistentvolume"
	"minik8s.io/minik8s/pkg/registry"
)

func validate(_ context.Context, v *corev1.PersistentVolume) field.ErrorList {
	return validateObject(v, persistentvolume.Leniency{})
}

func validateObject(v *corev1.PersistentVolume, keep persistentvolume.Leniency) field.ErrorList {
	errs := persistentvolume.ValidateSpec(&v.Spec, v.Name, field.NewPath("spec"), keep)
	if _, ok := v.Annotations[corev1.MountOptionAnnotation]; ok && !takesMountOptions(&v.Spec.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations", corev1.MountOptionAnnotation), "may not specify mount options for this volume type"))
	}
	return errs
}

// takesMountOptions reports whether the old annotation for mount options has a meaning for the source.
func takesMountOptions(s *corev1.PersistentVolumeSource) bool {
	return s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.Glusterfs != nil || s.NFS != nil || s.RBD != nil ||
		s.Quobyte != nil || s.ISCSI != nil || s.Cinder != nil || s.CephFS != nil || s.AzureFile != nil || s.VsphereVolume != nil ||
		s.AzureDisk != nil || s.PhotonPersistentDisk != nil
}

// validateUpdate keeps the volume where it is. Upstream reports some fields without the spec they are in.
func validateUpdate(_ context.Context, v, old *corev1.PersistentVolume) field.ErrorList {
	errs := append(validateObject(v, persistentvolume.Keep(&old.Spec)), registry.ValidateMetadata(v, false, apivalidation.NameIsDNSSubdomain)...)
	source := v.Spec.PersistentVolumeSource.DeepCopy()
	if was := old.Spec.CSI; source.CSI != nil && was != nil && was.ControllerExpandSecretRef == nil {
		source.CSI.ControllerExpandSecretRef = nil // may be added once
	}
	if !apiequality.Semantic.DeepEqual(*source, old.Spec.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v", diff.Diff(old.Spec.PersistentVolumeSource, *source))))
	}
	errs = append(errs, apivalidation.ValidateImmutableField(v.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil && !sameNodes(v.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), v.Spec.NodeAffinity, apivalidation.FieldImmutableErrorMsg+", except for updating from beta label to GA"))
	}
	if old.Spec.VolumeAttributesClassName != nil && v.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// sameNodes reports whether two affinities are the same but for labels that now go by their new name.
func sameNodes(a, old *corev1.VolumeNodeAffinity) bool {
	old = old.DeepCopy()
	if a != nil && a.Required != nil && old.Required != nil {
		terms := old.Required.NodeSelectorTerms
		for i := range min(len(terms), len(a.Required.NodeSelectorTerms)) {
			rename(terms[i].MatchExpressions, a.Required.NodeSelectorTerms[i].MatchExpressions)
			rename(terms[i].MatchFields, a.Required.NodeSelectorTerms[i].MatchFields)
		}
	}
	return apiequality.Semantic.DeepEqual(a, old)
}

func rename(old, now []corev1.NodeSelectorRequirement) {
	for i := range min(len(old), len(now)) {
		// Without a new name it is "", to which upstream lets it change: that is refused for another reason.
		if name, _ := nodelabel.Successor(old[i].Key); name == now[i].Key {
			old[i].Key = name
		}
	}
}

var deprecatedAnnotations = []struct{ key, text string }{
	{corev1.BetaStorageClassAnnotation, `deprecated since v1.8; use "storageClassName" attribute instead`},
	{corev1.MountOptionAnnotation, `deprecated since v1.31; use "mountOptions" attribute instead`},
}

func warnings(_ context.Context, v, _ *corev1.PersistentVolume) []string {
	var out []string
	for _, a := range deprecatedAnnotations {
		if _, ok := v.Annotations[a.key]; ok {
			out = append(out, fmt.Sprintf("%s: %s", field.NewPath("metadata", "annotations").Key(a.key), a.text))
		}
	}
	s := &v.Spec
	if s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		out = append(out, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if s.NodeAffinity != nil && s.NodeAffinity.Required != nil {
		out = append(out, nodelabel.TermWarnings(s.NodeAffinity.Required.NodeSelectorTerms, field.NewPath("spec", "nodeAffinity", "required", "nodeSelectorTerms"))...)
	}
	for _, gone := range []struct {
		set           bool
		name          string
		since, nowork string
	}{
		{s.CephFS != nil, "cephfs", "1.28", "1.31"},
		{s.PhotonPersistentDisk != nil, "photonPersistentDisk", "1.11", "1.16"},
		{s.ScaleIO != nil, "scaleIO", "1.16", "1.22"},
		{s.StorageOS != nil, "storageOS", "1.22", "1.25"},
		{s.Glusterfs != nil, "glusterfs", "1.25", "1.26"},
		{s.RBD != nil, "rbd", "1.28", "1.31"},
	} {
		if gone.set {
			out = append(out, fmt.Sprintf("spec.%s: deprecated in v%s, non-functional in v%s+", gone.name, gone.since, gone.nowork))
		}
	}
	return out
}
