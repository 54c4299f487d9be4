// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package topologyspread checks how pods want to be spread over zones and nodes. Touch it when constraints get another
// field.
package topologyspread

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/affinity"
	"minik8s.io/minik8s/pkg/apis/core/ratchet"
)

const notPositive = "must be greater than zero"

var (
	actions  = []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
	policies = []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
)

// Validate checks constraints.
func Validate(constraints []corev1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range constraints {
		c, p := &constraints[i], path.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(p.Child("maxSkew"), c.MaxSkew, notPositive))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(p.Child("topologyKey"), "can not be empty"))
		}
		if !slices.Contains(actions, c.WhenUnsatisfiable) {
			errs = append(errs, field.NotSupported(p.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, actions))
		}
		same := func(o corev1.TopologySpreadConstraint) bool {
			return o.TopologyKey == c.TopologyKey && o.WhenUnsatisfiable == c.WhenUnsatisfiable
		}
		if slices.ContainsFunc(constraints[i+1:], same) {
			errs = append(errs, field.Duplicate(p.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
		errs = append(errs, validateMinDomains(c.MinDomains, c.WhenUnsatisfiable, p.Child("minDomains"))...)
		errs = append(errs, validatePolicy(c.NodeAffinityPolicy, p.Child("nodeAffinityPolicy"))...)
		errs = append(errs, validatePolicy(c.NodeTaintsPolicy, p.Child("nodeTaintsPolicy"))...)
		errs = append(errs, ratchet.Mark("label keys of spread constraints", affinity.ValidateLabelKeys(c.MatchLabelKeys, nil, c.LabelSelector, p)...)...)
		errs = append(errs, ratchet.Mark("selectors of spread constraints", metav1validation.ValidateLabelSelector(c.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, p.Child("labelSelector"))...)...)
	}
	return errs
}

func validateMinDomains(n *int32, action corev1.UnsatisfiableConstraintAction, path *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	var errs field.ErrorList
	if *n <= 0 {
		errs = append(errs, field.Invalid(path, fmt.Sprint(*n), notPositive))
	}
	if action != corev1.DoNotSchedule {
		errs = append(errs, field.Invalid(path, *n, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, action)))
	}
	return errs
}

func validatePolicy(policy *corev1.NodeInclusionPolicy, path *field.Path) field.ErrorList {
	if policy != nil && !slices.Contains(policies, *policy) {
		return field.ErrorList{field.NotSupported(path, *policy, policies)}
	}
	return nil
}

// MergeLabelKeys adds the values that the pod has for matchLabelKeys to the selectors (KEP-3243), once, at creation.
func MergeLabelKeys(pod *corev1.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		affinity.AddLabels(c.LabelSelector, c.MatchLabelKeys, pod.Labels, metav1.LabelSelectorOpIn)
	}
}
