// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/container"
	"minik8s.io/minik8s/pkg/apis/core/podspec"
	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
)

var (
	specPath        = field.NewPath("spec")
	annotationsPath = field.NewPath("metadata", "annotations")
)

// Validate checks what is true of pods at all times, or was of the old one before an update; old is nil on create.
func Validate(p, old *corev1.Pod) field.ErrorList {
	var oldSpec *corev1.PodSpec
	var oldAnnotations map[string]string
	if old != nil {
		oldSpec, oldAnnotations = &old.Spec, old.Annotations
	}
	errs := podtemplate.ValidateAnnotations(p.Annotations, oldAnnotations, &p.Spec, annotationsPath)
	errs = append(errs, podspec.Validate(&p.Spec, oldSpec, &p.ObjectMeta, specPath)...)
	if p.Spec.ServiceAccountName == "" {
		for i, v := range p.Spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for j, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil {
					errs = append(errs, field.Forbidden(specPath.Child("volumes").Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"), "must not be specified when serviceAccountName is not set"))
				}
			}
		}
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(*g, specPath.Child("terminationGracePeriodSeconds"))...)
	}
	errs = append(errs, container.ValidateImagePadding(p.Spec.Containers, specPath.Child("containers"))...)
	return append(errs, container.ValidateImagePadding(p.Spec.InitContainers, specPath.Child("initContainers"))...)
}

// ValidateCreate checks a new pod, but for its metadata.
func ValidateCreate(p *corev1.Pod) field.ErrorList {
	errs := Validate(p, nil)
	if len(p.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if p.Spec.NodeName != "" && len(p.Spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return append(errs, podspec.ValidateProfilesMatch(p.Annotations, &p.Spec, specPath)...)
}
