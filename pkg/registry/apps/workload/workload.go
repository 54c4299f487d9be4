// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload has what the resources that keep pods running share: the rules for their selectors and templates, for
// numbers and percentages, and their table cells. Touch it when one of these changes for all of them.
package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry"
)

// ValidateSelector checks the selector and the template, both under path (spec). kind is how upstream's message names
// the resource; old is the template before an update.
func ValidateSelector(s *metav1.LabelSelector, t, old *corev1.PodTemplateSpec, kind string, path *field.Path) field.ErrorList {
	at := path.Child("selector")
	var errs field.ErrorList
	if s == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, at)...)
		if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(at, s, "empty selector is invalid for "+kind))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return append(errs, field.Invalid(at, s, "invalid label selector"))
	}
	return append(errs, ValidateTemplate(t, old, selector, path.Child("template"))...)
}

// ValidateTemplate checks a template of pods that are to run for ever; old is that before an update.
func ValidateTemplate(t, old *corev1.PodTemplateSpec, selector labels.Selector, path *field.Path) field.ErrorList {
	errs := ValidateLabelsMatch(t, selector, path)
	errs = append(errs, podtemplate.Validate(t, old, path)...)
	if t.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), t.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported"))
	}
	return errs
}

// ValidateLabelsMatch refuses a template whose pods the selector would not find.
func ValidateLabelsMatch(t *corev1.PodTemplateSpec, selector labels.Selector, path *field.Path) field.ErrorList {
	if selector.Empty() || selector.Matches(labels.Set(t.Labels)) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`")}
}

// Number is a named number that may not be negative.
type Number struct {
	Name  string
	Value int64
}

// ValidateNonnegative checks numbers under path.
func ValidateNonnegative(path *field.Path, numbers ...Number) field.ErrorList {
	var errs field.ErrorList
	for _, n := range numbers {
		errs = append(errs, apivalidation.ValidateNonnegativeField(n.Value, path.Child(n.Name))...)
	}
	return errs
}

// ValidateNotDecremented lets a counter only grow, and not vanish.
func ValidateNotDecremented(now, old *int32, path *field.Path) field.ErrorList {
	if old == nil || now != nil && *now >= *old {
		return nil
	}
	return field.ErrorList{field.Invalid(path, ptr.Deref(now, 0), "cannot be decremented")}
}

// ValidateIntOrPercent accepts a number that is not negative, or a percentage.
func ValidateIntOrPercent(v intstr.IntOrString, path *field.Path) field.ErrorList {
	if v.Type == intstr.Int {
		return apivalidation.ValidateNonnegativeField(int64(v.IntValue()), path)
	}
	var errs field.ErrorList
	for _, msg := range validation.IsValidPercent(v.StrVal) {
		errs = append(errs, field.Invalid(path, v, msg))
	}
	return errs
}

// ValidateNotMoreThanAll refuses percentages above 100.
func ValidateNotMoreThanAll(v intstr.IntOrString, path *field.Path) field.ErrorList {
	if p, ok := percent(v); ok && p > 100 {
		return field.ErrorList{field.Invalid(path, v, "must not be greater than 100%")}
	}
	return nil
}

// IsZero tells whether the number or percentage is zero. What is neither counts as zero.
func IsZero(v intstr.IntOrString) bool {
	if p, ok := percent(v); ok {
		return p == 0
	}
	return v.IntValue() == 0
}

func percent(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	p, err := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	return p, err == nil
}

// NameWarnings tells that pods will have names after this one that are no host names.
func NameWarnings(name string) []string {
	if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
		return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", msgs)}
	}
	return nil
}

// ContainerColumns are the columns that ContainerCells fills.
var ContainerColumns = []metav1.TableColumnDefinition{
	registry.WideColumn("Containers", "string", "Names of each container in the template."),
	registry.WideColumn("Images", "string", "Images referenced by each container in the template."),
}

// ContainerCells names the containers of a template and their images.
func ContainerCells(s *corev1.PodSpec) []any {
	var names, images []string
	for _, c := range s.Containers {
		names, images = append(names, c.Name), append(images, c.Image)
	}
	return []any{strings.Join(names, ","), strings.Join(images, ",")}
}

// WideColumns are the columns that WideCells fills; selector is the documentation of the last.
func WideColumns(selector string) []metav1.TableColumnDefinition {
	return append(slices.Clone(ContainerColumns), registry.WideColumn("Selector", "string", selector))
}

// WideCells describes a template and its selector.
func WideCells(s *corev1.PodSpec, selector string) []any {
	return append(ContainerCells(s), selector)
}
