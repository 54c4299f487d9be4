// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podtemplate has the defaults and validation of the templates from which workloads make pods. Touch it when
// templates differ from pods in something new.
package podtemplate

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/podspec"
)

// SetDefaults fills in a template. Requests stay without defaults from limits until a pod is made of it.
func SetDefaults(t *corev1.PodTemplateSpec) {
	podspec.SetDefaults(&t.Spec)
}

// Validate checks a template whose defaults are filled in.
func Validate(t *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(t.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	errs = append(errs, ValidateAnnotations(t.Annotations, &t.Spec, path.Child("annotations"))...)
	errs = append(errs, podspec.Validate(&t.Spec, podspec.Template, path.Child("spec"))...)
	errs = append(errs, podspec.ValidateProfilesMatch(t.Annotations, &t.Spec, path.Child("spec"))...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// ValidateAnnotations checks the annotations that mean something in pods and templates; path is that of the annotations.
func ValidateAnnotations(annotations map[string]string, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if v, ok := annotations[corev1.MirrorPodAnnotationKey]; ok && s.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), v, "must set spec.nodeName if mirror pod annotation is set"))
	}
	if v, ok := annotations[corev1.PodDeletionCost]; ok {
		if _, err := strconv.ParseInt(v, 10, 32); err != nil || v[0] == '+' || len(v) > 1 && (v[0] == '0' || v[0] == '-' && v[1] == '0') {
			errs = append(errs, field.Invalid(path.Key(corev1.PodDeletionCost), v, "must be a 32bit integer"))
		}
	}
	return append(errs, podspec.ValidateProfileAnnotations(annotations, s, path)...)
}
