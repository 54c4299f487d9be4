// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package poddisruptionbudget serves PodDisruptionBudgets: how many of some pods may be evicted at a time. Touch it when
// their rules change; the eviction subresource of pods spends them.
package poddisruptionbudget

import (
	"context"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
)

var docs = policyv1.PodDisruptionBudgetSpec{}.SwaggerDoc()

// Resource describes poddisruptionbudgets.
var Resource = &registry.Resource[*policyv1.PodDisruptionBudget]{
	Kind:       policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	Name:       "poddisruptionbudgets",
	ShortNames: []string{"pdb"},
	New:        func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} },
	NewList:    func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
	// Two evictions at once must not spend the same budget.
	RequireResourceVersion: true,
	Validate:               validate,
	Spec:                   func(b *policyv1.PodDisruptionBudget) any { return b.Spec },
	Status:                 &registry.Status[*policyv1.PodDisruptionBudget]{Validate: validateStatus},
	Columns: []metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Min Available", "string", docs["minAvailable"]),
		registry.Column("Max Unavailable", "string", docs["maxUnavailable"]),
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

func validate(_ context.Context, b *policyv1.PodDisruptionBudget) field.ErrorList {
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
	if spec.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	}
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
