// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package poddisruptionbudget serves PodDisruptionBudgets: how many of some pods may be evicted at a time. Touch it when
// their rules change; the eviction subresource of pods spends them.
package poddisruptionbudget

import (
	"context"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
)

// Resource describes poddisruptionbudgets.
var Resource = &registry.Resource[*policyv1.PodDisruptionBudget]{
	Kind:       policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	Name:       "poddisruptionbudgets",
	ShortNames: []string{"pdb"},
	New:        func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} },
	NewList:    func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
	// Two evictions at once must not spend the same budget.
	RequireResourceVersion: true,
	Metadata:               registry.MinimalMetadata,
	PrepareForCreate:       func(_ context.Context, b *policyv1.PodDisruptionBudget) { dropLegacyTerms(b.Spec.Selector) },
	PrepareForUpdate: func(_ context.Context, b, old *policyv1.PodDisruptionBudget) {
		if !apiequality.Semantic.DeepEqual(b.Spec.Selector, old.Spec.Selector) {
			dropLegacyTerms(b.Spec.Selector)
		}
	},
	Validate: func(_ context.Context, b *policyv1.PodDisruptionBudget) field.ErrorList {
		return validate(b, metav1validation.LabelSelectorValidationOptions{})
	},
	ValidateUpdate: func(_ context.Context, b, old *policyv1.PodDisruptionBudget) field.ErrorList {
		// What was stored before label values were checked may stay.
		invalid := metav1validation.ValidateLabelSelector(old.Spec.Selector, metav1validation.LabelSelectorValidationOptions{}, nil)
		return validate(b, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: len(invalid) > 0})
	},
	Spec:   func(b *policyv1.PodDisruptionBudget) any { return b.Spec },
	Status: &registry.Status[*policyv1.PodDisruptionBudget]{Validate: validateStatus},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Min Available", "string", "The minimum number of pods that must be available."),
		registry.Column("Max Unavailable", "string", "The maximum number of pods that may be unavailable."),
		registry.Column("Allowed Disruptions", "integer", "Calculated number of pods that may be disrupted at this time."),
		registry.AgeColumn,
	},
	Row: func(b *policyv1.PodDisruptionBudget) []any {
		return []any{b.Name, orNone(b.Spec.MinAvailable), orNone(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed), registry.Age(b.CreationTimestamp)}
	},
}

func orNone(v *intstr.IntOrString) string {
	if v == nil {
		return "N/A"
	}
	return v.String()
}

// legacyLabel was how v1beta1, where an empty selector matched nothing, was stored beside v1, where it matches everything.
const legacyLabel = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

// dropLegacyTerms takes the label out of selectors that say anything else.
func dropLegacyTerms(s *metav1.LabelSelector) {
	if s == nil || len(s.MatchExpressions) == 0 {
		return
	}
	none := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: legacyLabel, Operator: metav1.LabelSelectorOpExists}}}
	if !apiequality.Semantic.DeepEqual(s, none) {
		s.MatchExpressions = slices.DeleteFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == legacyLabel })
	}
}

func validate(b *policyv1.PodDisruptionBudget, opts metav1validation.LabelSelectorValidationOptions) field.ErrorList {
	path := field.NewPath("spec")
	spec := &b.Spec
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, *spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	for _, n := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"minAvailable", spec.MinAvailable}, {"maxUnavailable", spec.MaxUnavailable}} {
		if n.value != nil {
			errs = append(errs, workload.ValidateIntOrPercent(*n.value, path.Child(n.name))...)
			errs = append(errs, workload.ValidateNotMoreThanAll(*n.value, path.Child(n.name))...)
		}
	}
	errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector, opts, path.Child("selector"))...)
	known := []policyv1.UnhealthyPodEvictionPolicyType{policyv1.AlwaysAllow, policyv1.IfHealthyBudget}
	if p := spec.UnhealthyPodEvictionPolicy; p != nil && !slices.Contains(known, *p) {
		errs = append(errs, field.NotSupported(path.Child("unhealthyPodEvictionPolicy"), *p, known))
	}
	return errs
}

func validateStatus(_ context.Context, b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	path := field.NewPath("status")
	errs := metav1validation.ValidateConditions(b.Status.Conditions, path.Child("conditions"))
	return append(errs, workload.ValidateNonnegative(path,
		workload.Number{Name: "disruptionsAllowed", Value: int64(b.Status.DisruptionsAllowed)},
		workload.Number{Name: "currentHealthy", Value: int64(b.Status.CurrentHealthy)},
		workload.Number{Name: "desiredHealthy", Value: int64(b.Status.DesiredHealthy)},
		workload.Number{Name: "expectedPods", Value: int64(b.Status.ExpectedPods)})...)
}
