// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/registry/apps/workload"
)

func validate(_ context.Context, d *appsv1.Deployment) field.ErrorList { return validateAll(d, nil) }

func validateAll(d *appsv1.Deployment, oldTemplate *corev1.PodTemplateSpec) field.ErrorList {
	path := field.NewPath("spec")
	spec := &d.Spec
	numbers := []workload.Number{
		{Name: "replicas", Value: int64(ptr.Deref(spec.Replicas, 0))},
		{Name: "minReadySeconds", Value: int64(spec.MinReadySeconds)},
	}
	if spec.RevisionHistoryLimit != nil {
		numbers = append(numbers, workload.Number{Name: "revisionHistoryLimit", Value: int64(*spec.RevisionHistoryLimit)})
	}
	if spec.ProgressDeadlineSeconds != nil {
		numbers = append(numbers, workload.Number{Name: "progressDeadlineSeconds", Value: int64(*spec.ProgressDeadlineSeconds)})
	}
	errs := workload.ValidateNonnegative(path, numbers...)
	errs = append(errs, workload.ValidateSelector(spec.Selector, &spec.Template, oldTemplate, "deployment", path)...)
	errs = append(errs, validateStrategy(&spec.Strategy, path.Child("strategy"))...)
	errs = append(errs, validateRollback(d.Annotations, path.Child("rollback", "version"))...)
	if p := spec.ProgressDeadlineSeconds; p != nil && *p <= spec.MinReadySeconds {
		errs = append(errs, field.Invalid(path.Child("progressDeadlineSeconds"), *p, "must be greater than minReadySeconds"))
	}
	return errs
}

// validateRollback checks the revision to go back to, which was the field spec.rollbackTo once. An annotation that is no
// number is refused by upstream before it looks at anything else.
func validateRollback(annotations map[string]string, path *field.Path) field.ErrorList {
	v, ok := annotations[appsv1.DeprecatedRollbackTo]
	if !ok {
		return nil
	}
	revision, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return field.ErrorList{field.Invalid(path, v, err.Error())}
	}
	return apivalidation.ValidateNonnegativeField(revision, path)
}

func validateStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	at := path.Child("rollingUpdate")
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(at, "may not be specified when strategy `type` is '"+string(s.Type)+"'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
	default:
		return field.ErrorList{field.NotSupported(path, *s, []string{string(appsv1.RecreateDeploymentStrategyType), string(appsv1.RollingUpdateDeploymentStrategyType)})}
	}
	r := s.RollingUpdate
	if r == nil || r.MaxUnavailable == nil || r.MaxSurge == nil {
		return field.ErrorList{field.Required(at, "this should be defaulted and never be nil")}
	}
	errs := workload.ValidateIntOrPercent(*r.MaxUnavailable, at.Child("maxUnavailable"))
	errs = append(errs, workload.ValidateIntOrPercent(*r.MaxSurge, at.Child("maxSurge"))...)
	if workload.IsZero(*r.MaxUnavailable) && workload.IsZero(*r.MaxSurge) {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), *r.MaxUnavailable, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, workload.ValidateNotMoreThanAll(*r.MaxUnavailable, at.Child("maxUnavailable"))...)
}

func validateUpdate(_ context.Context, d, old *appsv1.Deployment) field.ErrorList {
	errs := validateAll(d, &old.Spec.Template)
	return append(errs, apivalidation.ValidateImmutableField(d.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

func validateStatus(_ context.Context, d, old *appsv1.Deployment) field.ErrorList {
	path := field.NewPath("status")
	s := &d.Status
	parts := []workload.Number{
		{Name: "updatedReplicas", Value: int64(s.UpdatedReplicas)},
		{Name: "readyReplicas", Value: int64(s.ReadyReplicas)},
		{Name: "availableReplicas", Value: int64(s.AvailableReplicas)},
	}
	errs := workload.ValidateNonnegative(path, append([]workload.Number{
		{Name: "observedGeneration", Value: s.ObservedGeneration},
		{Name: "replicas", Value: int64(s.Replicas)},
		{Name: "unavailableReplicas", Value: int64(s.UnavailableReplicas)},
		{Name: "terminatingReplicas", Value: int64(ptr.Deref(s.TerminatingReplicas, 0))},
		{Name: "collisionCount", Value: int64(ptr.Deref(s.CollisionCount, 0))},
	}, parts...)...)
	for _, n := range parts {
		if n.Value > int64(s.Replicas) {
			errs = append(errs, field.Invalid(path.Child(n.Name), n.Value, "cannot be greater than status.replicas"))
		}
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	return append(errs, workload.ValidateNotDecremented(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}
