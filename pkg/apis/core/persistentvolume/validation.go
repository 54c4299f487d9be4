// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolume

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/affinity"
	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

var reclaimPolicies = sets.New(corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)

// Leniency lets an update keep what was valid when the volume was made.
type Leniency struct {
	// NodeLabelValues lets values in the node affinity be no label values.
	NodeLabelValues bool
}

// Keep is the leniency that an update of the spec deserves.
func Keep(old *corev1.PersistentVolumeSpec) Leniency {
	if old.NodeAffinity == nil || old.NodeAffinity.Required == nil {
		return Leniency{}
	}
	return Leniency{NodeLabelValues: affinity.HasInvalidValues(old.NodeAffinity.Required)}
}

// ValidateSpec checks the spec of the volume of a name.
func ValidateSpec(spec *corev1.PersistentVolumeSpec, name string, p *field.Path, keep Leniency) field.ErrorList {
	errs := validateModes(spec, p)
	if len(spec.Capacity) == 0 {
		errs = append(errs, field.Required(p.Child("capacity"), ""))
	}
	if _, ok := spec.Capacity[corev1.ResourceStorage]; !ok || len(spec.Capacity) > 1 {
		errs = append(errs, field.NotSupported(p.Child("capacity"), spec.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, key := range quantity.Names(spec.Capacity) {
		at := p.Child("capacity").Key(string(key))
		errs = append(errs, persistentvolumeclaim.ValidateAmount(spec.Capacity[key], at)...)
		errs = append(errs, persistentvolumeclaim.ValidatePositive(spec.Capacity[key], at)...)
	}
	if r := spec.PersistentVolumeReclaimPolicy; r != "" && !reclaimPolicies.Has(r) {
		errs = append(errs, field.NotSupported(p.Child("persistentVolumeReclaimPolicy"), r, sets.List(reclaimPolicies)))
	}
	errs = append(errs, validateNodeAffinity(spec.NodeAffinity, p.Child("nodeAffinity"), keep)...)
	errs = append(errs, validateSource(spec, name, spec.NodeAffinity != nil, p)...)
	if spec.StorageClassName != "" {
		errs = append(errs, persistentvolumeclaim.ValidateClassName(spec.StorageClassName, p.Child("storageClassName"))...)
	}
	errs = append(errs, persistentvolumeclaim.ValidateVolumeMode(spec.VolumeMode, p.Child("volumeMode"))...)
	return append(errs, validateAttributesClass(spec, p)...)
}

// ValidateInline checks a spec that stands in a VolumeAttachment, for a volume that has no object of its own.
func ValidateInline(spec *corev1.PersistentVolumeSpec, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(name, text string) {
		errs = append(errs, field.Forbidden(p.Child(name), text+" in the context of inline volumes"))
	}
	if spec.ClaimRef != nil {
		forbid("claimRef", "may not be specified")
	}
	if len(spec.Capacity) > 0 {
		forbid("capacity", "may not be specified")
	}
	if spec.CSI == nil {
		errs = append(errs, field.Required(p.Child("csi"), "has to be specified in the context of inline volumes"))
	}
	errs = append(errs, validateModes(spec, p)...)
	if r := spec.PersistentVolumeReclaimPolicy; r != "" && r != corev1.PersistentVolumeReclaimRetain {
		forbid("persistentVolumeReclaimPolicy", "may only be "+string(corev1.PersistentVolumeReclaimRetain))
	}
	if spec.NodeAffinity != nil {
		forbid("nodeAffinity", "may not be specified")
	}
	errs = append(errs, validateSource(spec, "", false, p)...)
	if spec.StorageClassName != "" {
		forbid("storageClassName", "may not be specified")
	}
	if m := spec.VolumeMode; m != nil && *m != corev1.PersistentVolumeFilesystem {
		forbid("volumeMode", "may not specify volumeMode other than "+string(corev1.PersistentVolumeFilesystem))
	}
	return errs
}

func validateModes(spec *corev1.PersistentVolumeSpec, p *field.Path) field.ErrorList {
	p = p.Child("accessModes")
	if len(spec.AccessModes) == 0 {
		return field.ErrorList{field.Required(p, "")}
	}
	return persistentvolumeclaim.ValidateAccessModes(spec.AccessModes, p)
}

func validateNodeAffinity(a *corev1.VolumeNodeAffinity, p *field.Path, keep Leniency) field.ErrorList {
	switch {
	case a == nil:
		return nil
	case a.Required == nil:
		return field.ErrorList{field.Required(p.Child("required"), "must specify required node constraints")}
	case keep.NodeLabelValues:
		return affinity.ValidateNodeSelectorKeys(a.Required, p.Child("required"))
	}
	return affinity.ValidateNodeSelector(a.Required, p.Child("required"))
}

// validateSource checks that the volume comes from one place, and that this is well described. A local volume must be known
// to be on some nodes only.
func validateSource(spec *corev1.PersistentVolumeSpec, name string, onNodes bool, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	found := false
	for _, s := range sources(&spec.PersistentVolumeSource, name) {
		switch {
		case !s.set:
		case found && s.name != "flexVolume": // upstream lets this one pass
			errs = append(errs, field.Forbidden(p.Child(s.name), "may not specify more than 1 volume type"))
		default:
			found = true
			errs = append(errs, s.validate(p.Child(s.at()))...)
			if s.name == "local" && !onNodes {
				errs = append(errs, field.Required(p.Child("nodeAffinity"), "Local volume requires node affinity"))
			}
		}
	}
	if !found {
		errs = append(errs, field.Required(p, "must specify a volume type"))
	}
	if h := spec.HostPath; h != nil && path.Clean(h.Path) == "/" && spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(p.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	return errs
}

func validateAttributesClass(spec *corev1.PersistentVolumeSpec, p *field.Path) field.ErrorList {
	class := spec.VolumeAttributesClassName
	if class == nil {
		return nil
	}
	var errs field.ErrorList
	if at := p.Child("volumeAttributesClassName"); *class == "" {
		errs = append(errs, field.Required(at, "an empty string is disallowed"))
	} else {
		errs = append(errs, persistentvolumeclaim.ValidateClassName(*class, at)...)
	}
	if spec.CSI == nil {
		errs = append(errs, field.Required(p.Child("csi"), "has to be specified when using volumeAttributesClassName"))
	}
	return errs
}
