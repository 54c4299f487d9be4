// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package toleration checks tolerations of taints. Touch it when they get another operator or effect.
package toleration

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Effects are the known effects of taints.
var Effects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

// Validate checks tolerations.
func Validate(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range tolerations {
		p := path.Index(i)
		if t.Key != "" {
			errs = append(errs, metav1validation.ValidateLabelName(t.Key, p.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(p.Child("operator"), t.Operator, `operator must be Exists when `+"`key`"+` is empty, which means "match all values and all keys"`))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(p.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
				errs = append(errs, field.Invalid(p.Child("operator"), t.Value, strings.Join(msgs, ";")))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(p.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt: // TaintTolerationComparisonOperators is alpha
			errs = append(errs, field.NotSupported(p.Child("operator"), t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt}))
		default:
			errs = append(errs, field.NotSupported(p.Child("operator"), t.Operator, []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
		}
		if t.Effect != "" && !slices.Contains(Effects, t.Effect) {
			errs = append(errs, field.NotSupported(p.Child("effect"), t.Effect, Effects))
		}
	}
	return errs
}

// ValidateOnlyAdded checks an update: tolerations may be added, and of the old ones only the seconds may change.
func ValidateOnlyAdded(tolerations, old []corev1.Toleration, path *field.Path) field.ErrorList {
	for _, o := range old {
		kept := slices.ContainsFunc(tolerations, func(n corev1.Toleration) bool {
			n.TolerationSeconds = o.TolerationSeconds
			return n == o
		})
		if !kept {
			return field.ErrorList{field.Forbidden(path, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return Validate(tolerations, path)
}
