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

func validateMetadata[T Object](obj T, namespaced bool, name validation.ValidateNameFunc) field.ErrorList {
	errs := validation.ValidateObjectMetaAccessor(obj, namespaced, name, metadata)
	return append(errs, validateFinalizers(obj.GetFinalizers())...)
}

func validateMetadataUpdate[T Object](obj, old T) field.ErrorList {
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
