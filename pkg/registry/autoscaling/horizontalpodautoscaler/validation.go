// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/quantity"
	"minik8s.io/minik8s/pkg/registry"
)

const (
	maxPeriodSeconds              = 1800
	maxStabilizationWindowSeconds = 3600
)

var (
	selectPolicies = []autoscalingv2.ScalingPolicySelect{
		autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect,
	}
	policyTypes = []autoscalingv2.HPAScalingPolicyType{autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy}
	targetTypes = []autoscalingv2.MetricTargetType{
		autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType,
	}
)

// leniency is what rules about the API version of references let pass.
type leniency struct {
	anyVersion, noGroup bool
}

// leniencies are those of the workload and of the objects that metrics describe.
type leniencies struct {
	workload, described leniency
}

// leniencyOf lets an update keep what was stored before versions were checked; old is nil on create.
func leniencyOf(h, old *autoscalingv2.HorizontalPodAutoscaler) leniencies {
	l := leniencies{described: leniency{noGroup: true}}
	ref := &h.Spec.ScaleTargetRef
	// Of the core group only one kind can be scaled.
	l.workload.noGroup = ref.Kind == "ReplicationController"
	if old == nil {
		return l
	}
	was := &old.Spec.ScaleTargetRef
	l.workload.anyVersion = was.APIVersion == ref.APIVersion && was.Kind == ref.Kind
	l.described.anyVersion = slices.ContainsFunc(old.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil && checkVersion(m.Object.DescribedObject.APIVersion, l.described) != nil
	})
	return l
}

func checkVersion(version string, l leniency) error {
	if l.anyVersion {
		return nil
	}
	gv, err := schema.ParseGroupVersion(version)
	if err == nil && gv.Group == "" && !l.noGroup {
		err = errors.New("apiVersion must specify API group")
	}
	return err
}

func validate(h *autoscalingv2.HorizontalPodAutoscaler, l leniencies) field.ErrorList {
	path, spec := field.NewPath("spec"), &h.Spec
	var errs field.ErrorList
	if n := ptr.Deref(spec.MinReplicas, 0); n < 0 {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), n, "must be greater than or equal to 0"))
	}
	at := path.Child("maxReplicas")
	if spec.MaxReplicas == 0 {
		errs = append(errs, field.Required(at, "must be set and greater than 0"))
	} else if spec.MaxReplicas < 0 {
		errs = append(errs, field.Invalid(at, spec.MaxReplicas, "must be greater than or equal to 1"))
	}
	if spec.MinReplicas != nil && spec.MaxReplicas < *spec.MinReplicas {
		errs = append(errs, field.Invalid(at, spec.MaxReplicas, "must be greater than or equal to `minReplicas`").WithOrigin(registry.Relation))
	}
	errs = append(errs, validateReference(&spec.ScaleTargetRef, l.workload, path.Child("scaleTargetRef"))...)
	errs = append(errs, validateMetrics(spec, l.described, path.Child("metrics"))...)
	if b := spec.Behavior; b != nil {
		errs = append(errs, validateRules(b.ScaleUp, path.Child("behavior", "scaleUp"))...)
		errs = append(errs, validateRules(b.ScaleDown, path.Child("behavior", "scaleDown"))...)
	}
	return errs
}

func validateReference(ref *autoscalingv2.CrossVersionObjectReference, l leniency, path *field.Path) field.ErrorList {
	errs := validateSegment(ref.Kind, "", path.Child("kind"))
	errs = append(errs, validateSegment(ref.Name, "", path.Child("name"))...)
	if err := checkVersion(ref.APIVersion, l); err != nil {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), ref.APIVersion, err.Error()))
	}
	return errs
}

// validateSegment checks a name that becomes a part of a path; missing is what is said if there is none.
func validateSegment(name, missing string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, missing)}
	}
	var errs field.ErrorList
	for _, msg := range content.IsPathSegmentName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

func validateRules(rules *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
	if rules == nil {
		return nil
	}
	var errs field.ErrorList
	at := path.Child("stabilizationWindowSeconds")
	if n := ptr.Deref(rules.StabilizationWindowSeconds, 0); n < 0 {
		errs = append(errs, field.Invalid(at, n, "must be greater than or equal to zero"))
	} else if n > maxStabilizationWindowSeconds {
		errs = append(errs, field.Invalid(at, n, fmt.Sprintf("must be less than or equal to %d", maxStabilizationWindowSeconds)))
	}
	if p := rules.SelectPolicy; p != nil && !slices.Contains(selectPolicies, *p) {
		errs = append(errs, field.NotSupported(path.Child("selectPolicy"), *p, selectPolicies))
	}
	if len(rules.Policies) == 0 {
		errs = append(errs, field.Required(path.Child("policies"), "must specify at least one Policy"))
	}
	for i := range rules.Policies {
		errs = append(errs, validatePolicy(&rules.Policies[i], path.Child("policies").Index(i))...)
	}
	if rules.Tolerance != nil {
		errs = append(errs, quantity.ValidateNonNegative(*rules.Tolerance, path.Child("tolerance"))...)
	}
	return errs
}

func validatePolicy(p *autoscalingv2.HPAScalingPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !slices.Contains(policyTypes, p.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), p.Type, policyTypes))
	}
	if p.Value <= 0 {
		errs = append(errs, field.Invalid(path.Child("value"), p.Value, "must be greater than zero"))
	}
	if p.PeriodSeconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero"))
	} else if p.PeriodSeconds > maxPeriodSeconds {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), p.PeriodSeconds, fmt.Sprintf("must be less than or equal to %d", maxPeriodSeconds)))
	}
	return errs
}

func validateMetrics(spec *autoscalingv2.HorizontalPodAutoscalerSpec, described leniency, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range spec.Metrics {
		errs = append(errs, validateMetric(&spec.Metrics[i], described, path.Index(i))...)
	}
	// Without pods only metrics from elsewhere tell that some are needed.
	elsewhere := slices.ContainsFunc(spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	})
	if ptr.Deref(spec.MinReplicas, 1) == 0 && !elsewhere {
		errs = append(errs, field.Forbidden(path, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

// source is a possible source of a metric.
type source struct {
	kind     autoscalingv2.MetricSourceType
	name     string
	set      bool
	validate func(path *field.Path) field.ErrorList
}

func sources(m *autoscalingv2.MetricSpec, described leniency) []source {
	return []source{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(p *field.Path) field.ErrorList { return validateObject(m.Object, described, p) }},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(p *field.Path) field.ErrorList { return validateExternal(m.External, p) }},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(p *field.Path) field.ErrorList { return validatePods(m.Pods, p) }},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(p *field.Path) field.ErrorList { return validateResource(m.Resource, p) }},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(p *field.Path) field.ErrorList { return validateContainer(m.ContainerResource, p) }},
	}
}

// validateMetric checks the first source that is there, and that no other is.
func validateMetric(m *autoscalingv2.MetricSpec, described leniency, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric source type"))
	}
	all := sources(m, described)
	kinds := sets.New[autoscalingv2.MetricSourceType]()
	var present []source
	for _, s := range all {
		kinds.Insert(s.kind)
		if s.set {
			present = append(present, s)
		}
		if s.kind == m.Type && !s.set {
			errs = append(errs, field.Required(path.Child(s.name), "must populate information for the given metric source"))
		}
	}
	if !kinds.Has(m.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), m.Type, sets.List(kinds)))
	}
	if len(present) > 0 {
		errs = append(errs, present[0].validate(path.Child(present[0].name))...)
	}
	if len(present) < 2 {
		return errs
	}
	for _, s := range present {
		if s.kind != m.Type {
			errs = append(errs, field.Forbidden(path.Child(s.name), "must populate the given metric source only"))
		}
	}
	return errs
}

func validateObject(s *autoscalingv2.ObjectMetricSource, described leniency, path *field.Path) field.ErrorList {
	errs := validateReference(&s.DescribedObject, described, path.Child("describedObject"))
	errs = append(errs, validateIdentifier(&s.Metric, path.Child("metric"))...)
	errs = append(errs, validateTarget(&s.Target, path.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func validateExternal(s *autoscalingv2.ExternalMetricSource, path *field.Path) field.ErrorList {
	errs := validateIdentifier(&s.Metric, path.Child("metric"))
	errs = append(errs, validateTarget(&s.Target, path.Child("target"))...)
	switch whole, each := s.Target.Value != nil, s.Target.AverageValue != nil; {
	case !whole && !each:
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
	case whole && each:
		errs = append(errs, field.Forbidden(path.Child("target", "value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func validatePods(s *autoscalingv2.PodsMetricSource, path *field.Path) field.ErrorList {
	errs := validateIdentifier(&s.Metric, path.Child("metric"))
	errs = append(errs, validateTarget(&s.Target, path.Child("target"))...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(path.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func validateResource(s *autoscalingv2.ResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	}
	return append(errs, validateUse(&s.Target, path.Child("target"))...)
}

func validateContainer(s *autoscalingv2.ContainerResourceMetricSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, quantity.ValidateContainerName(s.Name, path.Child("name"))...)
	}
	if s.Container == "" {
		errs = append(errs, field.Required(path.Child("container"), "must specify a container"))
	} else {
		for _, msg := range validation.IsDNS1123Label(s.Container) {
			errs = append(errs, field.Invalid(path.Child("container"), s.Container, msg))
		}
	}
	return append(errs, validateUse(&s.Target, path.Child("target"))...)
}

// validateUse checks the target of a resource: an amount, or a part of what is requested.
func validateUse(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	errs := validateTarget(t, path)
	switch part, amount := t.AverageUtilization != nil, t.AverageValue != nil; {
	case !part && !amount:
		errs = append(errs, field.Required(path.Child("averageUtilization"), "must set either a target raw value or a target utilization"))
	case part && amount:
		errs = append(errs, field.Forbidden(path.Child("averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func validateTarget(t *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "must specify a metric target type"))
	}
	if !slices.Contains(targetTypes, t.Type) {
		errs = append(errs, field.Invalid(path.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(path.Child("averageValue"), t.AverageValue, "must be positive"))
	}
	if n := ptr.Deref(t.AverageUtilization, 1); n < 1 {
		errs = append(errs, field.Invalid(path.Child("averageUtilization"), n, "must be greater than 0"))
	}
	return errs
}

func validateIdentifier(id *autoscalingv2.MetricIdentifier, path *field.Path) field.ErrorList {
	return validateSegment(id.Name, "must specify a metric name", path.Child("name"))
}

func validateStatus(_ context.Context, h, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	for i, c := range h.Status.Conditions {
		errs = append(errs, apivalidation.ValidateNonnegativeField(ptr.Deref(c.ObservedGeneration, 0), path.Child("conditions").Index(i).Child("observedGeneration"))...)
	}
	errs = append(errs, apivalidation.ValidateNonnegativeField(int64(h.Status.CurrentReplicas), path.Child("currentReplicas"))...)
	return append(errs, apivalidation.ValidateNonnegativeField(int64(h.Status.DesiredReplicas), path.Child("desiredReplicas"))...)
}
