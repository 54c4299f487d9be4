// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package jobspec

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	maxFailureRules      = 20
	maxExitCodes         = 255
	maxConditionPatterns = 20
	maxSuccessRules      = 20
	maxSucceededIndexes  = 64 * 1024 // bytes
)

var (
	failureActions = []batchv1.PodFailurePolicyAction{
		batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
	}
	exitCodeOperators = []batchv1.PodFailurePolicyOnExitCodesOperator{batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn}
	conditionStatuses = []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
)

// oneOf refuses what is not among the known values.
func oneOf[S ~string](value S, known []S, path *field.Path) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}

// requiredOneOf does so with another answer for a missing value.
func requiredOneOf[S ~string](value S, known []S, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q", known))}
	}
	return oneOf(value, known, path)
}

func validatePodFailurePolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if s.PodFailurePolicy == nil {
		return nil
	}
	var errs field.ErrorList
	rules, at := s.PodFailurePolicy.Rules, path.Child("rules")
	if len(rules) > maxFailureRules {
		errs = append(errs, field.TooMany(at, len(rules), maxFailureRules))
	}
	containers := sets.New[string]()
	for _, c := range slices.Concat(s.Template.Spec.Containers, s.Template.Spec.InitContainers) {
		containers.Insert(c.Name)
	}
	for i := range rules {
		errs = append(errs, validateFailureRule(s, &rules[i], containers, at.Index(i))...)
	}
	return errs
}

func validateFailureRule(s *batchv1.JobSpec, rule *batchv1.PodFailurePolicyRule, containers sets.Set[string], path *field.Path) field.ErrorList {
	action := path.Child("action")
	errs := requiredOneOf(rule.Action, failureActions, action)
	if rule.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(action, rule.Action, "requires the backoffLimitPerIndex to be set"))
	}
	if rule.OnExitCodes != nil {
		errs = append(errs, validateExitCodes(rule.OnExitCodes, containers, path.Child("onExitCodes"))...)
	}
	errs = append(errs, validateConditionPatterns(rule.OnPodConditions, path.Child("onPodConditions"))...)
	switch codes, conditions := rule.OnExitCodes != nil, len(rule.OnPodConditions) > 0; {
	case codes && conditions:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case !codes && !conditions:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func validateExitCodes(codes *batchv1.PodFailurePolicyOnExitCodesRequirement, containers sets.Set[string], path *field.Path) field.ErrorList {
	errs := requiredOneOf(codes.Operator, exitCodeOperators, path.Child("operator"))
	if codes.ContainerName != nil && !containers.Has(*codes.ContainerName) {
		errs = append(errs, field.Invalid(path.Child("containerName"), *codes.ContainerName, "must be one of the container or initContainer names in the pod template"))
	}
	at := path.Child("values")
	if len(codes.Values) == 0 {
		errs = append(errs, field.Invalid(at, codes.Values, "at least one value is required"))
	} else if len(codes.Values) > maxExitCodes {
		errs = append(errs, field.TooMany(at, len(codes.Values), maxExitCodes))
	}
	seen := sets.New[int32]()
	for i, code := range codes.Values {
		if codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && code == 0 {
			errs = append(errs, field.Invalid(at.Index(i), code, "must not be 0 for the In operator"))
		}
		if seen.Has(code) {
			errs = append(errs, field.Duplicate(at.Index(i), code))
		}
		seen.Insert(code)
	}
	if !slices.IsSorted(codes.Values) {
		errs = append(errs, field.Invalid(at, codes.Values, "must be ordered"))
	}
	return errs
}

func validateConditionPatterns(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(patterns) > maxConditionPatterns {
		errs = append(errs, field.TooMany(path, len(patterns), maxConditionPatterns))
	}
	for i, p := range patterns {
		for _, msg := range validation.IsQualifiedName(string(p.Type)) {
			errs = append(errs, field.Invalid(path.Index(i).Child("type"), p.Type, msg))
		}
		errs = append(errs, requiredOneOf(p.Status, conditionStatuses, path.Index(i).Child("status"))...)
	}
	return errs
}

func validateSuccessPolicy(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if s.SuccessPolicy == nil {
		return nil
	}
	if !IsIndexed(s) {
		return field.ErrorList{field.Invalid(path, *s.SuccessPolicy, "requires indexed completion mode")}
	}
	var errs field.ErrorList
	rules, at := s.SuccessPolicy.Rules, path.Child("rules")
	if len(rules) == 0 {
		errs = append(errs, field.Required(at, "at least one rules must be specified when the successPolicy is specified"))
	}
	if len(rules) > maxSuccessRules {
		errs = append(errs, field.TooMany(at, len(rules), maxSuccessRules))
	}
	for i := range rules {
		errs = append(errs, validateSuccessRule(&rules[i], ptr.Deref(s.Completions, 0), at.Index(i))...)
	}
	return errs
}

func validateSuccessRule(rule *batchv1.SuccessPolicyRule, completions int32, path *field.Path) field.ErrorList {
	if rule.SucceededCount == nil && rule.SucceededIndexes == nil {
		return field.ErrorList{field.Required(path, "at least one of succeededCount or succeededIndexes must be specified")}
	}
	var errs field.ErrorList
	var listed int32
	if list := rule.SucceededIndexes; list != nil {
		at := path.Child("succeededIndexes")
		if len(*list) > maxSucceededIndexes {
			errs = append(errs, field.TooLong(at, "", maxSucceededIndexes))
		}
		var err error
		if listed, err = CountIndexes(*list, completions); err != nil {
			errs = append(errs, field.Invalid(at, *list, fmt.Sprintf("error parsing succeededIndexes: %s", err)))
		}
	}
	if count := rule.SucceededCount; count != nil {
		at := path.Child("succeededCount")
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*count), at)...)
		if *count > completions {
			errs = append(errs, field.Invalid(at, *count, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions)))
		}
		if rule.SucceededIndexes != nil && *count > listed {
			errs = append(errs, field.Invalid(at, *count, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", listed)))
		}
	}
	return errs
}
