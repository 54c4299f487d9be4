// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	corepod "minik8s.io/minik8s/pkg/apis/core/pod"
)

var (
	specPath        = field.NewPath("spec")
	statusPath      = field.NewPath("status")
	annotationsPath = field.NewPath("metadata", "annotations")
)

func validateCreate(_ context.Context, p *corev1.Pod) field.ErrorList {
	return corepod.ValidateCreate(p)
}

// validateAgain checks a pod that somebody changes in whatever way: upstream looks at names, too.
func validateAgain(p, old *corev1.Pod) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaAccessor(p, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, corepod.Validate(p, old)...)
}

// validateAnnotationUpdate guards the annotations that tell what a pod is.
func validateAnnotationUpdate(p, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	kind := func(key string) string {
		switch {
		case key == corev1.MirrorPodAnnotationKey:
			return "mirror pod annotation"
		case strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix):
			return "AppArmor annotations"
		}
		return ""
	}
	for key, value := range old.Annotations {
		if what := kind(key); what != "" {
			if now, ok := p.Annotations[key]; !ok || now != value {
				errs = append(errs, field.Forbidden(annotationsPath.Key(key), "may not remove or update "+what))
			}
		}
	}
	for key := range p.Annotations {
		if what := kind(key); what != "" {
			if _, ok := old.Annotations[key]; !ok {
				errs = append(errs, field.Forbidden(annotationsPath.Key(key), "may not add "+what))
			}
		}
	}
	return errs
}
