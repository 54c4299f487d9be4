// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
)

func validate(_ context.Context, d *appsv1.DaemonSet) field.ErrorList {
	return validateSpec(d, nil, metav1validation.LabelSelectorValidationOptions{})
}

func validateSpec(d *appsv1.DaemonSet, oldTemplate *corev1.PodTemplateSpec, opts metav1validation.LabelSelectorValidationOptions) field.ErrorList {
	path := field.NewPath("spec")
	spec, at := &d.Spec, path.Child("template")
	errs := metav1validation.ValidateLabelSelector(spec.Selector, opts, path.Child("selector"))
	// No selector matches nothing.
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !selector.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	if s := spec.Selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path.Child("selector"), s, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, podtemplate.Validate(&spec.Template, oldTemplate, at)...)
	if spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at.Child("spec", "restartPolicy"), spec.Template.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if spec.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in DaemonSet is not Supported"))
	}
	errs = append(errs, workload.ValidateNonnegative(path,
		workload.Number{Name: "minReadySeconds", Value: int64(spec.MinReadySeconds)},
		workload.Number{Name: "revisionHistoryLimit", Value: int64(ptr.Deref(spec.RevisionHistoryLimit, 0))})...)
	return append(errs, validateStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
}

func validateStrategy(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
	default:
		return field.ErrorList{field.NotSupported(path, *s, []string{string(appsv1.RollingUpdateDaemonSetStrategyType), string(appsv1.OnDeleteDaemonSetStrategyType)})}
	}
	at := path.Child("rollingUpdate")
	r := s.RollingUpdate
	if r == nil || r.MaxUnavailable == nil || r.MaxSurge == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := workload.ValidateIntOrPercent(*r.MaxUnavailable, at.Child("maxUnavailable"))
	errs = append(errs, workload.ValidateNotMoreThanAll(*r.MaxUnavailable, at.Child("maxUnavailable"))...)
	errs = append(errs, workload.ValidateIntOrPercent(*r.MaxSurge, at.Child("maxSurge"))...)
	errs = append(errs, workload.ValidateNotMoreThanAll(*r.MaxSurge, at.Child("maxSurge"))...)
	// Either an old pod makes room or a new one comes beside it, not both.
	switch down, up := !workload.IsZero(*r.MaxUnavailable), !workload.IsZero(*r.MaxSurge); {
	case down && up:
		errs = append(errs, field.Invalid(at.Child("maxSurge"), r.MaxSurge, "may not be set when maxUnavailable is non-zero"))
	case !down && !up:
		errs = append(errs, field.Required(at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

func validateUpdate(_ context.Context, d, old *appsv1.DaemonSet) field.ErrorList {
	// What was stored before label values were checked may stay.
	errs := validateSpec(d, &old.Spec.Template, metav1validation.LabelSelectorValidationOptions{
		AllowInvalidLabelValueInSelector: metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector),
	})
	return append(errs, apivalidation.ValidateImmutableField(d.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

func validateStatus(_ context.Context, d, old *appsv1.DaemonSet) field.ErrorList {
	path := field.NewPath("status")
	s := &d.Status
	errs := workload.ValidateNonnegative(path,
		workload.Number{Name: "currentNumberScheduled", Value: int64(s.CurrentNumberScheduled)},
		workload.Number{Name: "numberMisscheduled", Value: int64(s.NumberMisscheduled)},
		workload.Number{Name: "desiredNumberScheduled", Value: int64(s.DesiredNumberScheduled)},
		workload.Number{Name: "numberReady", Value: int64(s.NumberReady)},
		workload.Number{Name: "observedGeneration", Value: s.ObservedGeneration},
		workload.Number{Name: "updatedNumberScheduled", Value: int64(s.UpdatedNumberScheduled)},
		workload.Number{Name: "numberAvailable", Value: int64(s.NumberAvailable)},
		workload.Number{Name: "numberUnavailable", Value: int64(s.NumberUnavailable)},
		workload.Number{Name: "collisionCount", Value: int64(ptr.Deref(s.CollisionCount, 0))})
	return append(errs, workload.ValidateNotDecremented(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}
