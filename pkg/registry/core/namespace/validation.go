// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validate(_ context.Context, n *corev1.Namespace) field.ErrorList {
	path := field.NewPath("spec", "finalizers")
	return validateFinalizers(n, func(int) *field.Path { return path })
}

// validateFinalizers names the place of the i-th by at: errors of new namespaces do not tell the index, as ever.
func validateFinalizers(n *corev1.Namespace, at func(i int) *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, f := range n.Spec.Finalizers {
		for _, msg := range validation.IsQualifiedName(string(f)) {
			errs = append(errs, field.Invalid(at(i), string(f), msg))
		}
		if !strings.Contains(string(f), "/") && !standardFinalizer(string(f)) {
			errs = append(errs, field.Invalid(at(i), string(f), "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

func standardFinalizer(name string) bool {
	return name == string(corev1.FinalizerKubernetes) || name == "orphan" || name == "foregroundDeletion"
}

func validateStatus(_ context.Context, n, _ *corev1.Namespace) field.ErrorList {
	path := field.NewPath("status", "Phase") // sic, as upstream
	switch {
	case n.DeletionTimestamp.IsZero() && n.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(path, n.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case !n.DeletionTimestamp.IsZero() && n.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(path, n.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}
