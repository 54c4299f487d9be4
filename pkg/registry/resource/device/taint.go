// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	effects   = []resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone}
	operators = []resourcev1.DeviceTolerationOperator{resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists}
)

// Now is the time at which a taint is added, in what the encoding can hold.
func Now() *metav1.Time { return &metav1.Time{Time: time.Now().Truncate(time.Second)} }

// SetTaintDefaults notes when a taint was added.
func SetTaintDefaults(t *resourcev1.DeviceTaint) {
	if t.TimeAdded == nil {
		t.TimeAdded = Now()
	}
}

// SetTolerationDefaults compares with what is given unless told otherwise.
func SetTolerationDefaults(tolerations []resourcev1.DeviceToleration) {
	for i := range tolerations {
		if tolerations[i].Operator == "" {
			tolerations[i].Operator = resourcev1.DeviceTolerationOpEqual
		}
	}
}

// ValidateTaint checks a taint; old may be nil. An effect that is stored may stay.
func ValidateTaint(t, old *resourcev1.DeviceTaint, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(t.Key, path.Child("key"))
	errs = append(errs, ValidateLabelValue(t.Value, path.Child("value"))...)
	if old != nil && old.Effect == t.Effect {
		return errs
	}
	if t.Effect == "" {
		return append(errs, field.Required(path.Child("effect"), ""))
	}
	return append(errs, validateEffect(t.Effect, path.Child("effect"))...)
}

func validateEffect(e resourcev1.DeviceTaintEffect, path *field.Path) field.ErrorList {
	if slices.Contains(effects, e) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, e, effects)}
}

// ValidateToleration checks a toleration of taints.
func ValidateToleration(t resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, ValidateLabelValue(t.Value, path.Child("value"))...)
	case "":
		errs = append(errs, field.Required(path.Child("operator"), ""))
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator, operators))
	}
	if t.Effect != "" {
		errs = append(errs, validateEffect(t.Effect, path.Child("effect"))...)
	}
	return errs
}

// ValidateBinding checks the conditions that say whether a device got ready for its pod. There are both kinds or neither.
func ValidateBinding(conditions, failures []string, path *field.Path) field.ErrorList {
	ready, failed := path.Child("bindingConditions"), path.Child("bindingFailureConditions")
	errs := ValidateSlice(conditions, resourcev1.BindingConditionsMaxSize, metav1validation.ValidateLabelName, ready)
	errs = append(errs, ValidateSlice(failures, resourcev1.BindingFailureConditionsMaxSize, metav1validation.ValidateLabelName, failed)...)
	good, bad := sets.New[string](), sets.New[string]()
	for i, c := range conditions {
		if good.Has(c) {
			errs = append(errs, field.Duplicate(ready.Index(i), c))
		}
		good.Insert(c)
	}
	for i, c := range failures {
		if bad.Has(c) {
			errs = append(errs, field.Duplicate(failed.Index(i), c))
		}
		bad.Insert(c)
		if good.Has(c) {
			errs = append(errs, field.Invalid(failed.Index(i), c, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	if len(conditions) == 0 && len(failures) > 0 {
		errs = append(errs, field.Invalid(ready, conditions, "bindingConditions are required to use bindingFailureConditions"))
	}
	if len(failures) == 0 && len(conditions) > 0 {
		errs = append(errs, field.Invalid(failed, failures, "bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}
