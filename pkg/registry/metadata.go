// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var metadata = field.NewPath("metadata")

// MetadataChecks is how far the metadata of a kind is checked. Upstream's kinds differ, for no reason that one could tell.
type MetadataChecks int

const (
	// KubernetesMetadata wants finalizers besides the standard ones to have a domain.
	KubernetesMetadata MetadataChecks = iota
	// GenericMetadata does not, as for custom resources.
	GenericMetadata
	// MinimalMetadata has only the checks that the generic store makes of everything.
	MinimalMetadata
)

func (c MetadataChecks) create(obj metav1.Object, namespaced bool, name validation.ValidateNameFunc) field.ErrorList {
	switch c {
	case MinimalMetadata:
		return nil
	case GenericMetadata:
		return validation.ValidateObjectMetaAccessor(obj, namespaced, name, metadata)
	default:
		return ValidateMetadata(obj, namespaced, name)
	}
}

func (c MetadataChecks) update(obj, old metav1.Object) field.ErrorList {
	switch c {
	case MinimalMetadata:
		return nil
	case GenericMetadata:
		return validation.ValidateObjectMetaAccessorUpdate(obj, old, metadata)
	default:
		return ValidateMetadataUpdate(obj, old)
	}
}

// ValidateMetadata checks the metadata of a new object as far as KubernetesMetadata says. Resources need to call it only if
// they do so in some cases and not in others.
func ValidateMetadata(obj metav1.Object, namespaced bool, name validation.ValidateNameFunc) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessor(obj, namespaced, name, metadata)
	return append(errs, validateFinalizers(obj.GetFinalizers())...)
}

// ValidateMetadataUpdate does so for updates.
func ValidateMetadataUpdate(obj, old metav1.Object) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessorUpdate(obj, old, metadata)
	return append(errs, validateFinalizers(obj.GetFinalizers())...)
}

// standardFinalizers need no domain; somebody's own do, for built-in kinds at least.
var standardFinalizers = []string{string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}

func validateFinalizers(finalizers []string) field.ErrorList {
	var errs field.ErrorList
	for i, f := range finalizers {
		if !strings.Contains(f, "/") && !slices.Contains(standardFinalizers, f) {
			errs = append(errs, field.Invalid(metadata.Child("finalizers").Index(i), f, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}
