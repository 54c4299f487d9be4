// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/persistentvolumeclaim"
	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
)

var retentionPolicies = []appsv1.PersistentVolumeClaimRetentionPolicyType{
	appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
}

func validate(_ context.Context, s *appsv1.StatefulSet) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateSpec(&s.Spec, path)
	errs = append(errs, validateTemplate(&s.Spec, nil, path.Child("template"))...)
	for i := range s.Spec.VolumeClaimTemplates {
		p := path.Child("volumeClaimTemplates").Index(i).Child("spec")
		errs = append(errs, persistentvolumeclaim.ValidateSpec(&s.Spec.VolumeClaimTemplates[i].Spec, p, persistentvolumeclaim.Leniency{})...)
	}
	if s.Spec.ServiceName != "" {
		for _, msg := range validation.IsDNS1123Label(s.Spec.ServiceName) {
			errs = append(errs, field.Invalid(path.Child("serviceName"), s.Spec.ServiceName, msg))
		}
	}
	return errs
}

// validateSpec checks what a create and an update have in common: all but the pod template, the claim templates and the
// service's name.
func validateSpec(s *appsv1.StatefulSetSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch p := path.Child("podManagementPolicy"); s.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	case "":
		errs = append(errs, field.Required(p, ""))
	default:
		errs = append(errs, field.Invalid(p, s.PodManagementPolicy, fmt.Sprintf("must be '%s' or '%s'", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)))
	}
	errs = append(errs, validateStrategy(&s.UpdateStrategy, path.Child("updateStrategy"))...)
	if r := s.PersistentVolumeClaimRetentionPolicy; r != nil {
		p := path.Child("persistentVolumeClaimRetentionPolicy")
		errs = append(errs, validateRetention(r.WhenDeleted, p.Child("whenDeleted"))...)
		errs = append(errs, validateRetention(r.WhenScaled, p.Child("whenScaled"))...)
	}
	errs = append(errs, workload.ValidateNonnegative(path,
		workload.Number{Name: "replicas", Value: int64(ptr.Deref(s.Replicas, 0))},
		workload.Number{Name: "minReadySeconds", Value: int64(s.MinReadySeconds)})...)
	if s.Ordinals != nil {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(s.Ordinals.Start), path.Child("ordinals", "start"))...)
	}
	errs = append(errs, validateSelector(s, path)...)
	if s.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("template", "spec", "restartPolicy"), s.Template.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if s.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("template", "spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in StatefulSet is not Supported"))
	}
	return errs
}

func validateStrategy(s *appsv1.StatefulSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(path, "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(path.Child("rollingUpdate"), s.RollingUpdate, fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType))}
		}
		return nil
	case appsv1.RollingUpdateStatefulSetStrategyType:
		return validateRollingUpdate(s.RollingUpdate, path.Child("rollingUpdate"))
	default:
		return field.ErrorList{field.Invalid(path, *s, fmt.Sprintf("must be '%s' or '%s'", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType))}
	}
}

func validateRollingUpdate(r *appsv1.RollingUpdateStatefulSetStrategy, path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	errs := apivalidation.ValidateNonnegativeField(int64(ptr.Deref(r.Partition, 0)), path.Child("partition"))
	if r.MaxUnavailable == nil {
		return errs
	}
	at := path.Child("maxUnavailable")
	errs = append(errs, workload.ValidateIntOrPercent(*r.MaxUnavailable, at)...)
	if workload.IsZero(*r.MaxUnavailable) {
		errs = append(errs, field.Invalid(at, *r.MaxUnavailable, "cannot be 0"))
	}
	return append(errs, workload.ValidateNotMoreThanAll(*r.MaxUnavailable, at)...)
}

func validateRetention(policy appsv1.PersistentVolumeClaimRetentionPolicyType, path *field.Path) field.ErrorList {
	if slices.Contains(retentionPolicies, policy) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, policy, retentionPolicies)}
}

func validateSelector(s *appsv1.StatefulSetSpec, path *field.Path) field.ErrorList {
	at := path.Child("selector")
	var errs field.ErrorList
	if s.Selector == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(s.Selector, metav1validation.LabelSelectorValidationOptions{}, at)...)
		if len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(at, s.Selector, "empty selector is invalid for statefulset"))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	if err != nil {
		return append(errs, field.Invalid(at, s.Selector, ""))
	}
	return append(errs, workload.ValidateLabelsMatch(&s.Template, selector, path.Child("template"))...)
}

// validateTemplate checks the template as the pods will have it: host name and subdomain come from the set, and so do
// the volumes of its claims. old is the template before an update.
func validateTemplate(s *appsv1.StatefulSetSpec, old *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	t := s.Template.DeepCopy()
	t.Spec.Hostname, t.Spec.Subdomain = "", ""
	claimed := sets.New[string]()
	var volumes []corev1.Volume
	for _, c := range s.VolumeClaimTemplates {
		if claimed.Has(c.Name) {
			continue
		}
		claimed.Insert(c.Name)
		volumes = append(volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name},
		}})
	}
	for _, v := range t.Spec.Volumes {
		if !claimed.Has(v.Name) {
			volumes = append(volumes, v)
		}
	}
	t.Spec.Volumes = volumes
	return podtemplate.Validate(t, old, path)
}

func validateUpdate(_ context.Context, s, old *appsv1.StatefulSet) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateSpec(&s.Spec, path)
	template := path.Child("template")
	if len(validateSpec(&old.Spec, nil)) == 0 && len(validateTemplate(&old.Spec, &old.Spec.Template, nil)) == 0 {
		errs = append(errs, validateTemplate(&s.Spec, &old.Spec.Template, template)...)
	} else {
		// A set that was stored under older rules must still be scaled and deleted: only its metadata is looked at.
		t := &s.Spec.Template
		errs = append(errs, metav1validation.ValidateLabels(t.Labels, template.Child("labels"))...)
		errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, template.Child("annotations"))...)
		errs = append(errs, podtemplate.ValidateAnnotations(t.Annotations, old.Spec.Template.Annotations, &t.Spec, template.Child("annotations"))...)
	}
	for _, f := range []struct {
		name     string
		now, was any
	}{
		{"selector", s.Spec.Selector, old.Spec.Selector},
		{"volumeClaimTemplates", s.Spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates},
		{"serviceName", s.Spec.ServiceName, old.Spec.ServiceName},
		{"podManagementPolicy", s.Spec.PodManagementPolicy, old.Spec.PodManagementPolicy},
	} {
		errs = append(errs, apivalidation.ValidateImmutableField(f.now, f.was, path.Child(f.name))...)
	}
	return errs
}

func validateStatus(_ context.Context, s, old *appsv1.StatefulSet) field.ErrorList {
	path := field.NewPath("status")
	st := &s.Status
	parts := []workload.Number{
		{Name: "readyReplicas", Value: int64(st.ReadyReplicas)},
		{Name: "currentReplicas", Value: int64(st.CurrentReplicas)},
		{Name: "updatedReplicas", Value: int64(st.UpdatedReplicas)},
		{Name: "availableReplicas", Value: int64(st.AvailableReplicas)},
	}
	errs := workload.ValidateNonnegative(path, append([]workload.Number{
		{Name: "replicas", Value: int64(st.Replicas)},
		{Name: "observedGeneration", Value: st.ObservedGeneration},
		{Name: "collisionCount", Value: int64(ptr.Deref(st.CollisionCount, 0))},
	}, parts...)...)
	for _, n := range parts {
		if n.Value > int64(st.Replicas) {
			errs = append(errs, field.Invalid(path.Child(n.Name), n.Value, "cannot be greater than status.replicas"))
		}
	}
	if st.AvailableReplicas > st.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), st.AvailableReplicas, "cannot be greater than status.readyReplicas"))
	}
	return append(errs, workload.ValidateNotDecremented(st.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}
