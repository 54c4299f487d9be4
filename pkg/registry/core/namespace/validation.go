// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"strings"
)

func validate(_ context.Context, n *corev1.Namespace) field.ErrorList {
	return validateFinalizers(n)
}

func validateFinalizers(n *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "finalizers")
	for i, f := range n.Spec.Finalizers {
		for _, msg := range validation.IsQualifiedName(string(f)) {
			errs = append(errs, field.Invalid(path.Index(i), string(f), msg))
		}
		if !strings.Contains(string(f), "/") && !standardFinalizer(string(f)) {
			errs = append(errs, field.Invalid(path.Index(i), string(f), "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

func standardFinalizer(name string) bool {
	return name == string(corev1.FinalizerKubernetes) || name == "orphan" || name == "foregroundDeletion"
}

func validateStatus(_ context.Context, n, _ *corev1.Namespace) field.ErrorList {
	path := field.NewPath("status", "phase")
	switch {
	case n.DeletionTimestamp.IsZero() && n.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(path, n.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case !n.DeletionTimestamp.IsZero() && n.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(path, n.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}
