// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package jobspec

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
)

const (
	maxManagedByLength = 63
	// The lists of completed and failed indexes in the status must not outgrow an object, so an indexed Job may run and
	// lose only so many indexes.
	maxIndexedParallelism   = 100_000
	maxIndexedFailedIndexes = 100_000
	// Above manyCompletions the limits are tighter for Jobs that retry each index on its own.
	manyCompletions   = 100_000
	highParallelism   = 10_000
	highFailedIndexes = 10_000
)

var (
	completionModes     = []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}
	replacementPolicies = []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
	restartPolicies     = []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
)

// Validate checks a spec apart from its selector, which only Jobs have; old is that before an update, nil on create.
func Validate(s, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var oldTemplate *corev1.PodTemplateSpec
	if old != nil {
		oldTemplate = &old.Template
	}
	errs := validateNumbers(s, path)
	errs = append(errs, validateManagedBy(s.ManagedBy, path.Child("managedBy"))...)
	errs = append(errs, validateCompletionMode(s, path)...)
	errs = append(errs, validatePodFailurePolicy(s, path.Child("podFailurePolicy"))...)
	errs = append(errs, validateSuccessPolicy(s, path.Child("successPolicy"))...)
	errs = append(errs, validatePodReplacementPolicy(s, path.Child("podReplacementPolicy"))...)
	errs = append(errs, podtemplate.Validate(&s.Template, oldTemplate, path.Child("template"))...)
	return append(errs, validateRestartPolicy(s, path.Child("template", "spec", "restartPolicy"))...)
}

func validateNumbers(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, n := range []struct {
		name  string
		value *int32
	}{
		{"parallelism", s.Parallelism},
		{"completions", s.Completions},
		{"backoffLimit", s.BackoffLimit},
		{"ttlSecondsAfterFinished", s.TTLSecondsAfterFinished},
		{"backoffLimitPerIndex", s.BackoffLimitPerIndex},
		{"maxFailedIndexes", s.MaxFailedIndexes},
	} {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(ptr.Deref(n.value, 0)), path.Child(n.name))...)
	}
	errs = append(errs, apivalidation.ValidateNonnegativeField(ptr.Deref(s.ActiveDeadlineSeconds, 0), path.Child("activeDeadlineSeconds"))...)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	return errs
}

func validateManagedBy(name *string, path *field.Path) field.ErrorList {
	if name == nil {
		return nil
	}
	errs := validation.IsDomainPrefixedPath(path, *name)
	if len(*name) > maxManagedByLength {
		errs = append(errs, field.TooLong(path, "", maxManagedByLength))
	}
	return errs
}

func validateCompletionMode(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch mode := ptr.Deref(s.CompletionMode, batchv1.NonIndexedCompletion); mode {
	case batchv1.IndexedCompletion:
		return validateIndexed(s, path)
	case batchv1.NonIndexedCompletion:
		return validateNonIndexed(s, path)
	default:
		return field.ErrorList{field.NotSupported(path.Child("completionMode"), mode, completionModes)}
	}
}

func validateIndexed(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	atMost := func(name string, value *int32, limit int32, when string) {
		if value != nil && *value > limit {
			errs = append(errs, field.Invalid(path.Child(name), *value, fmt.Sprintf("must be less than or equal to %d%s", limit, when)))
		}
	}
	if s.Completions == nil {
		errs = append(errs, field.Required(path.Child("completions"), fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
	} else if s.MaxFailedIndexes != nil && *s.MaxFailedIndexes > *s.Completions {
		errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *s.MaxFailedIndexes, "must be less than or equal to completions"))
	}
	atMost("parallelism", s.Parallelism, maxIndexedParallelism, fmt.Sprintf(" when completion mode is %s", batchv1.IndexedCompletion))
	atMost("maxFailedIndexes", s.MaxFailedIndexes, maxIndexedFailedIndexes, "")
	if ptr.Deref(s.Completions, 0) <= manyCompletions || s.BackoffLimitPerIndex == nil {
		return errs
	}
	if s.MaxFailedIndexes == nil {
		errs = append(errs, field.Required(path.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d", manyCompletions)))
	}
	when := fmt.Sprintf(" when completions are above %d and used with backoff limit per index", manyCompletions)
	atMost("parallelism", s.Parallelism, highParallelism, when)
	atMost("maxFailedIndexes", s.MaxFailedIndexes, highFailedIndexes, when)
	return errs
}

func validateNonIndexed(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, n := range []struct {
		name  string
		value *int32
	}{{"backoffLimitPerIndex", s.BackoffLimitPerIndex}, {"maxFailedIndexes", s.MaxFailedIndexes}} {
		if n.value != nil {
			errs = append(errs, field.Invalid(path.Child(n.name), *n.value, "requires indexed completion mode"))
		}
	}
	return errs
}

// validatePodReplacementPolicy makes Jobs with a failure policy wait for the verdict on a pod before they replace it.
func validatePodReplacementPolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	allowed := replacementPolicies
	if s.PodFailurePolicy != nil {
		allowed = []batchv1.PodReplacementPolicy{batchv1.Failed}
	}
	if s.PodReplacementPolicy == nil {
		return nil
	}
	return oneOf(*s.PodReplacementPolicy, allowed, path)
}

func validateRestartPolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch policy := s.Template.Spec.RestartPolicy; policy {
	case corev1.RestartPolicyAlways, "":
		// Always is the default of pod specs, so whoever forgot the policy gets here too.
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q, %q", restartPolicies[0], restartPolicies[1]))}
	case corev1.RestartPolicyNever:
		return nil
	case corev1.RestartPolicyOnFailure:
		if s.PodFailurePolicy != nil {
			return field.ErrorList{field.Invalid(path, policy, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever))}
		}
		return nil
	default:
		return field.ErrorList{field.NotSupported(path, policy, restartPolicies)}
	}
}
