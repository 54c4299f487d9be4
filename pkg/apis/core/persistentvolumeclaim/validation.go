// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package persistentvolumeclaim

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
)

var (
	accessModes = sets.New(corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod)
	volumeModes = sets.New(corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
)

// Leniency lets an update keep what was valid when the object was made.
type Leniency struct {
	// SelectorValues lets values in the label selector be no label values.
	SelectorValues bool
	// SourceGroups lets API groups of data sources be no domain names.
	SourceGroups bool
}

// Keep is the leniency that an update of the spec deserves.
func Keep(old *corev1.PersistentVolumeClaimSpec) Leniency {
	return Leniency{
		SelectorValues: len(metav1validation.ValidateLabelSelector(old.Selector, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0,
		SourceGroups:   old.DataSource != nil && old.DataSource.APIGroup != nil || old.DataSourceRef != nil && old.DataSourceRef.APIGroup != nil,
	}
}

// ValidateSpec checks a claim spec.
func ValidateSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path, keep Leniency) field.ErrorList {
	var errs field.ErrorList
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(path.Child("accessModes"), "at least 1 access mode is required"))
	}
	if spec.Selector != nil {
		opts := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: keep.SelectorValues}
		errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector, opts, path.Child("selector"))...)
	}
	errs = append(errs, ValidateAccessModes(spec.AccessModes, path.Child("accessModes"))...)
	p := path.Child("resources").Key(string(corev1.ResourceStorage))
	if size, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(p, ""))
	} else {
		errs = append(errs, ValidatePositive(size, p)...)
	}
	if n := spec.StorageClassName; n != nil && *n != "" {
		errs = append(errs, ValidateClassName(*n, path.Child("storageClassName"))...)
	}
	errs = append(errs, ValidateVolumeMode(spec.VolumeMode, path.Child("volumeMode"))...)
	errs = append(errs, validateSources(spec, path, keep)...)
	if n := spec.VolumeAttributesClassName; n != nil && *n != "" {
		errs = append(errs, ValidateClassName(*n, path.Child("volumeAttributesClassName"))...)
	}
	return errs
}

// ValidateAccessModes checks the modes of a claim or volume: one for a single pod tolerates no other beside it.
func ValidateAccessModes(modes []corev1.PersistentVolumeAccessMode, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	single, others := false, false
	for _, m := range modes {
		switch {
		case !accessModes.Has(m):
			errs = append(errs, field.NotSupported(path, m, sets.List(accessModes)))
		case m == corev1.ReadWriteOncePod:
			single = true
		default:
			others = true
		}
	}
	if single && others {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

// ValidateVolumeMode checks the mode of a claim or volume; nil is fine.
func ValidateVolumeMode(mode *corev1.PersistentVolumeMode, path *field.Path) field.ErrorList {
	if mode == nil || volumeModes.Has(*mode) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, *mode, sets.List(volumeModes))}
}

// ValidateClassName checks the name of a storage class or volume attributes class.
func ValidateClassName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

// ValidatePositive refuses amounts that are not greater than zero.
func ValidatePositive(q resource.Quantity, path *field.Path) field.ErrorList {
	if q.Sign() <= 0 {
		return field.ErrorList{field.Invalid(path, q.String(), "must be greater than zero")}
	}
	return nil
}

// ValidateStatusAmounts checks amounts that a status reports: storage, or resources from outside Kubernetes.
func ValidateStatusAmounts(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range quantity.Names(list) {
		if e := ValidateResourceKey(string(name), path); len(e) > 0 {
			errs = append(errs, e...)
			continue
		}
		q, p := list[name], path.Key(string(name))
		if e := ValidateAmount(q, p); len(e) > 0 {
			errs = append(errs, e...)
			continue
		}
		errs = append(errs, quantity.ValidateValue(corev1.ResourceStorage, q, p)...)
	}
	return errs
}

// ValidateAmount refuses amounts below zero.
func ValidateAmount(q resource.Quantity, path *field.Path) field.ErrorList {
	if q.Value() < 0 {
		return field.ErrorList{field.Invalid(path, q.Value(), "must be a valid resource quantity")}
	}
	return nil
}

// ValidateResourceKey checks the name of a resource in the status of a claim.
func ValidateResourceKey(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	if len(errs) == 0 && quantity.IsNative(corev1.ResourceName(name)) && name != string(corev1.ResourceStorage) {
		errs = append(errs, field.NotSupported(path, name, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	return errs
}

func validateSources(spec *corev1.PersistentVolumeClaimSpec, path *field.Path, keep Leniency) field.ErrorList {
	var errs field.ErrorList
	if s := spec.DataSource; s != nil {
		errs = append(errs, validateSource(s.APIGroup, s.Kind, s.Name, path.Child("dataSource"), keep)...)
	}
	if s := spec.DataSourceRef; s != nil {
		p := path.Child("dataSourceRef")
		errs = append(errs, validateSource(s.APIGroup, s.Kind, s.Name, p, keep)...)
		if ns := namespace(s); ns != "" {
			for _, msg := range apivalidation.ValidateNamespaceName(ns, false) {
				errs = append(errs, field.Invalid(p.Child("namespace"), ns, msg))
			}
		}
	}
	switch source, ref := spec.DataSource, spec.DataSourceRef; {
	case source == nil || ref == nil:
	case namespace(ref) != "":
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified"))
	case !reflect.DeepEqual(source.APIGroup, ref.APIGroup) || source.Kind != ref.Kind || source.Name != ref.Name:
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "must match dataSourceRef"))
	}
	return errs
}

func validateSource(group *string, kind, name string, path *field.Path, keep Leniency) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), ""))
	}
	if group == nil || *group == "" {
		if kind != "PersistentVolumeClaim" {
			errs = append(errs, field.Invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
		}
		return errs
	}
	if !keep.SourceGroups {
		for _, msg := range validation.IsDNS1123Subdomain(*group) {
			errs = append(errs, field.Invalid(path.Child("apiGroup"), *group, msg))
		}
	}
	return errs
}

// Warnings tells what is valid in a claim spec and yet surely not meant.
func Warnings(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	var out []string
	for _, l := range []struct {
		name string
		list corev1.ResourceList
	}{{"requests", spec.Resources.Requests}, {"limits", spec.Resources.Limits}} {
		if q := l.list[corev1.ResourceStorage]; q.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				path.Child("resources", l.name).Key(string(corev1.ResourceStorage)), q.String()))
		}
	}
	return out
}
