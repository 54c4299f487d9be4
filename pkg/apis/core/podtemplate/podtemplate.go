// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podtemplate has the defaults and validation of the templates from which workloads make pods. Touch it when
// templates differ from pods in something new.
package podtemplate

import (
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/podspec"
	"minik8s.io/minik8s/pkg/apis/core/toleration"
)

// SetDefaults fills in a template. Requests stay without defaults from limits until a pod is made of it.
func SetDefaults(t *corev1.PodTemplateSpec) {
	podspec.SetDefaults(&t.Spec)
}

// DropDisabled clears what upstream drops without a word: fields of features that are off, and annotations that init
// containers once were; old is the template before an update, nil on create.
func DropDisabled(t, old *corev1.PodTemplateSpec) {
	var oldSpec *corev1.PodSpec
	if old != nil {
		oldSpec = &old.Spec
	}
	podspec.DropDisabled(&t.Spec, oldSpec)
	DropAnnotations(t.Annotations)
}

// DropAnnotations removes the annotations that init containers and their statuses were before Kubernetes 1.8.
func DropAnnotations(annotations map[string]string) {
	for _, stage := range []string{"alpha", "beta"} {
		delete(annotations, "pod."+stage+".kubernetes.io/init-containers")
		delete(annotations, "pod."+stage+".kubernetes.io/init-container-statuses")
	}
}

// Validate checks a template whose defaults are filled in. Of some rules that old, the template before an update,
// violates, the new one may do so too; old is nil on create.
func Validate(t, old *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	var oldSpec *corev1.PodSpec
	var oldAnnotations map[string]string
	if old != nil {
		oldSpec, oldAnnotations = &old.Spec, old.Annotations
	}
	errs := metav1validation.ValidateLabels(t.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, path.Child("annotations"))...)
	errs = append(errs, ValidateAnnotations(t.Annotations, oldAnnotations, &t.Spec, path.Child("annotations"))...)
	errs = append(errs, podspec.Validate(&t.Spec, oldSpec, nil, path.Child("spec"))...)
	errs = append(errs, podspec.ValidateProfilesMatch(t.Annotations, &t.Spec, path.Child("spec"))...)
	if len(t.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// ValidateAnnotations checks the annotations that mean something in pods and templates; path is that of the annotations.
// An old deletion cost that is no number lets the new one be none either.
func ValidateAnnotations(annotations, old map[string]string, s *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if v, ok := annotations[corev1.MirrorPodAnnotationKey]; ok && s.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), v, "must set spec.nodeName if mirror pod annotation is set"))
	}
	if v := annotations[corev1.TolerationsAnnotationKey]; v != "" {
		var tolerations []corev1.Toleration
		if err := json.Unmarshal([]byte(v), &tolerations); err != nil {
			errs = append(errs, field.Invalid(path, corev1.TolerationsAnnotationKey, err.Error()))
		} else {
			errs = append(errs, toleration.Validate(tolerations, path.Child(corev1.TolerationsAnnotationKey))...)
		}
	}
	if v, ok := annotations[corev1.PodDeletionCost]; ok && !isCost(v) {
		if v, ok := old[corev1.PodDeletionCost]; !ok || isCost(v) {
			errs = append(errs, field.Invalid(path.Key(corev1.PodDeletionCost), annotations[corev1.PodDeletionCost], "must be a 32bit integer"))
		}
	}
	return append(errs, podspec.ValidateProfileAnnotations(annotations, s, path)...)
}

// isCost tells whether a deletion cost is a number without a plus sign or leading zeros.
func isCost(v string) bool {
	if v == "" || v[0] == '+' || v[0] == '0' && v != "0" {
		return false
	}
	_, err := strconv.ParseInt(v, 10, 32)
	return err == nil
}
