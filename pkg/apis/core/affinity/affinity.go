// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package affinity checks which nodes and which other pods a pod wants near. Touch it when affinity gets another term.
package affinity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/apis/core/ratchet"
)

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

// Validate checks affinity; nil is fine.
func Validate(a *corev1.Affinity, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if n := a.NodeAffinity; n != nil {
		p := path.Child("nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			errs = append(errs, ValidateNodeSelector(n.RequiredDuringSchedulingIgnoredDuringExecution, p.Child(required))...)
		}
		errs = append(errs, validatePreferredNodes(n.PreferredDuringSchedulingIgnoredDuringExecution, p.Child(preferred))...)
	}
	if t := a.PodAffinity; t != nil {
		errs = append(errs, validatePodTerms(t.RequiredDuringSchedulingIgnoredDuringExecution, t.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))...)
	}
	if t := a.PodAntiAffinity; t != nil {
		errs = append(errs, validatePodTerms(t.RequiredDuringSchedulingIgnoredDuringExecution, t.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))...)
	}
	return errs
}

// ValidateNodeSelector checks a selector that nodes must match.
func ValidateNodeSelector(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	return validateNodeSelector(s, true, path)
}

// ValidateNodeSelectorKeys does so but for the values: old objects may have some that no label can have.
func ValidateNodeSelectorKeys(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	return validateNodeSelector(s, false, path)
}

// HasInvalidValues reports whether a selector has values that no label can have.
func HasInvalidValues(s *corev1.NodeSelector) bool {
	return slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return slices.ContainsFunc(r.Values, func(v string) bool { return len(validation.IsValidLabelValue(v)) > 0 })
		})
	})
}

func validateNodeSelector(s *corev1.NodeSelector, checkValues bool, path *field.Path) field.ErrorList {
	p := path.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(p, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range s.NodeSelectorTerms {
		errs = append(errs, validateNodeTerm(&s.NodeSelectorTerms[i], checkValues, p.Index(i))...)
	}
	return errs
}

func validatePreferredNodes(terms []corev1.PreferredSchedulingTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range terms {
		p := path.Index(i)
		errs = append(errs, validateWeight(terms[i].Weight, p.Child("weight"))...)
		// Values that no label can have are let through here: a preference that nothing matches does no harm.
		errs = append(errs, validateNodeTerm(&terms[i].Preference, false, p.Child("preference"))...)
	}
	return errs
}

func validateWeight(w int32, path *field.Path) field.ErrorList {
	if w <= 0 || w > 100 {
		return field.ErrorList{field.Invalid(path, w, "must be in the range 1-100")}
	}
	return nil
}

func validateNodeTerm(t *corev1.NodeSelectorTerm, checkValues bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range t.MatchExpressions {
		errs = append(errs, validateLabelRequirement(&t.MatchExpressions[i], checkValues, path.Child("matchExpressions").Index(i))...)
	}
	for i := range t.MatchFields {
		errs = append(errs, validateFieldRequirement(&t.MatchFields[i], path.Child("matchFields").Index(i))...)
	}
	return errs
}

func validateLabelRequirement(r *corev1.NodeSelectorRequirement, checkValues bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(path.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(path.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	errs = append(errs, metav1validation.ValidateLabelName(r.Key, path.Child("key"))...)
	if !checkValues {
		return errs
	}
	return append(errs, ratchet.Mark("values of node selectors", validateValues(r.Values, path.Child("values"))...)...)
}

func validateFieldRequirement(r *corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(path.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, v := range r.Values {
		for _, msg := range apivalidation.NameIsDNSSubdomain(v, false) {
			errs = append(errs, field.Invalid(path.Child("values").Index(i), v, msg))
		}
	}
	return errs
}

func validatePodTerms(must []corev1.PodAffinityTerm, prefer []corev1.WeightedPodAffinityTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range must {
		errs = append(errs, validatePodTerm(&must[i], path.Child(required).Index(i))...)
	}
	for i := range prefer {
		p := path.Child(preferred).Index(i)
		errs = append(errs, validateWeight(prefer[i].Weight, p.Child("weight"))...)
		errs = append(errs, validatePodTerm(&prefer[i].PodAffinityTerm, p.Child("podAffinityTerm"))...)
	}
	return errs
}

func validatePodTerm(t *corev1.PodAffinityTerm, path *field.Path) field.ErrorList {
	errs := validateSelector(t.LabelSelector, path.Child("labelSelector"))
	errs = append(errs, validateSelector(t.NamespaceSelector, path.Child("namespaceSelector"))...)
	for _, ns := range t.Namespaces {
		for _, msg := range apivalidation.ValidateNamespaceName(ns, false) {
			errs = append(errs, field.Invalid(path.Child("namespace"), ns, msg))
		}
	}
	errs = append(errs, ValidateLabelKeys(t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector, path)...)
	if t.TopologyKey == "" {
		errs = append(errs, field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, metav1validation.ValidateLabelName(t.TopologyKey, path.Child("topologyKey"))...)
}

// validateSelector checks a selector of pods or namespaces. Old ones may have values that no label can have.
func validateSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: true}, path)
	if s == nil {
		return errs
	}
	for i, r := range s.MatchExpressions {
		errs = append(errs, ratchet.Mark("values of selectors", validateValues(r.Values, path.Child("matchExpressions").Index(i).Child("values"))...)...)
	}
	return errs
}

func validateValues(values []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range values {
		for _, msg := range validation.IsValidLabelValue(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, msg))
		}
	}
	return errs
}

// ValidateLabelKeys checks keys whose values are taken from the pod and added to the selector, under the path of the term
// or constraint that they are in.
func ValidateLabelKeys(match, mismatch []string, s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	errs := validateKeys(match, s, path.Child("matchLabelKeys"))
	errs = append(errs, validateKeys(mismatch, s, path.Child("mismatchLabelKeys"))...)
	if s != nil {
		// What was taken from the pod is there already, once.
		seen := sets.KeySet(s.MatchLabels)
		for _, r := range s.MatchExpressions {
			if slices.Contains(match, r.Key) && seen.Has(r.Key) {
				i := len(match) - 1
				for match[i] != r.Key {
					i--
				}
				errs = append(errs, field.Invalid(path.Index(i), r.Key, "exists in both matchLabelKeys and labelSelector"))
			}
			seen.Insert(r.Key)
		}
	}
	for i, key := range match {
		if slices.Contains(mismatch, key) {
			errs = append(errs, field.Invalid(path.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	return errs
}

func validateKeys(keys []string, s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if len(keys) == 0 {
		return nil
	}
	if s == nil {
		return field.ErrorList{field.Forbidden(path, "must not be specified when labelSelector is not set")}
	}
	var errs field.ErrorList
	for i, key := range keys {
		errs = append(errs, metav1validation.ValidateLabelName(key, path.Index(i))...)
	}
	return errs
}
