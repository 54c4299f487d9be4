// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/batch/jobspec"
)

func validate(_ context.Context, j *batchv1.Job) field.ErrorList {
	errs := validateGenerated(j)
	errs = append(errs, jobspec.Validate(&j.Spec, nil, field.NewPath("spec"))...)
	errs = append(errs, validateSelector(&j.Spec, metav1validation.LabelSelectorValidationOptions{})...)
	return append(errs, validateHostNames(j)...)
}

func validateSelector(s *batchv1.JobSpec, opts metav1validation.LabelSelectorValidationOptions) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if s.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(s.Selector, opts, path.Child("selector"))...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil && !selector.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), s.Template.Labels, "`selector` does not match template `labels`"))
	}
	return errs
}

// validateGenerated refuses what stood in the way of a generated selector: labels or a selector of the user's own.
func validateGenerated(j *batchv1.Job) field.ErrorList {
	if ptr.Deref(j.Spec.ManualSelector, false) || j.Spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	if j.UID == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "uid"), ""))
	}
	path := field.NewPath("spec")
	own := labels.Set{
		legacyUIDLabel: string(j.UID), batchv1.ControllerUidLabel: string(j.UID),
		legacyNameLabel: j.Name, batchv1.JobNameLabel: j.Name,
	}
	for _, key := range []string{legacyUIDLabel, legacyNameLabel, batchv1.ControllerUidLabel, batchv1.JobNameLabel} {
		at, must := path.Child("template", "metadata", "labels").Key(key), fmt.Sprintf("must be '%s'", own[key])
		if got, ok := j.Spec.Template.Labels[key]; !ok {
			errs = append(errs, field.Required(at, must))
		} else if got != own[key] {
			errs = append(errs, field.Invalid(at, j.Spec.Template.Labels, must))
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !selector.Matches(own) {
		errs = append(errs, field.Invalid(path.Child("selector"), j.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// validateHostNames refuses a name that leaves no room for the index, which both make a pod's host name.
func validateHostNames(j *batchv1.Job) field.ErrorList {
	if !jobspec.IsIndexed(&j.Spec) || ptr.Deref(j.Spec.Completions, 0) <= 0 {
		return nil
	}
	longest := fmt.Sprintf("%s-%d", j.Name, *j.Spec.Completions-1)
	if len(validation.IsDNS1123Label(longest)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), j.Name, fmt.Sprintf("will not able to create pod with invalid DNS label: %s", longest))}
}

func validateUpdate(_ context.Context, j, old *batchv1.Job) field.ErrorList {
	path := field.NewPath("spec")
	errs := jobspec.Validate(&j.Spec, &old.Spec, path)
	// What was stored before label values were checked may stay.
	errs = append(errs, validateSelector(&j.Spec, metav1validation.LabelSelectorValidationOptions{
		AllowInvalidLabelValueInSelector: metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector),
	})...)
	errs = append(errs, validateCompletionsUpdate(&j.Spec, &old.Spec, path.Child("completions"))...)
	errs = append(errs, validateTemplateUpdate(j, old, path.Child("template"))...)
	for _, f := range []struct {
		name     string
		now, was any
	}{
		{"selector", j.Spec.Selector, old.Spec.Selector},
		{"completionMode", j.Spec.CompletionMode, old.Spec.CompletionMode},
		{"podFailurePolicy", j.Spec.PodFailurePolicy, old.Spec.PodFailurePolicy},
		{"backoffLimitPerIndex", j.Spec.BackoffLimitPerIndex, old.Spec.BackoffLimitPerIndex},
		{"managedBy", j.Spec.ManagedBy, old.Spec.ManagedBy},
		{"successPolicy", j.Spec.SuccessPolicy, old.Spec.SuccessPolicy},
	} {
		errs = append(errs, apivalidation.ValidateImmutableField(f.now, f.was, path.Child(f.name))...)
	}
	return append(errs, validateHostNames(j)...)
}

// validateCompletionsUpdate lets indexed Jobs grow and shrink if all indexes run at once.
func validateCompletionsUpdate(s, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	switch {
	case !jobspec.IsIndexed(s):
		return apivalidation.ValidateImmutableField(s.Completions, old.Completions, path)
	case s.Completions == nil || ptr.Equal(s.Completions, old.Completions):
		return nil // a missing number is refused already
	case *s.Completions != ptr.Deref(s.Parallelism, 0):
		return field.ErrorList{field.Invalid(path, *s.Completions, fmt.Sprintf("can only be modified in tandem with %s", path.Root().Child("parallelism")))}
	}
	return nil
}

// validateTemplateUpdate lets a queue place a suspended Job that has no pods: it may say where they go and what they
// may use. Everything else stays.
func validateTemplateUpdate(j, old *batchv1.Job, path *field.Path) field.ErrorList {
	t, was := &j.Spec.Template, &old.Spec.Template
	suspended := ptr.Deref(old.Spec.Suspend, false)
	idle := old.Status.Active == 0 && (old.Status.StartTime == nil || hasCondition(old, batchv1.JobSuspended))
	if !suspended || !idle {
		return apivalidation.ValidateImmutableField(t, was, path)
	}
	expected := was.DeepCopy()
	allowScheduling(&expected.Spec, &t.Spec)
	allowResources(expected.Spec.Containers, t.Spec.Containers)
	allowResources(expected.Spec.InitContainers, t.Spec.InitContainers)
	return apivalidation.ValidateImmutableField(t.Spec, expected.Spec, path.Child("spec"))
}

func allowScheduling(expected, s *corev1.PodSpec) {
	expected.NodeSelector, expected.Tolerations, expected.SchedulingGates = s.NodeSelector, s.Tolerations, s.SchedulingGates
	if s.Affinity == nil && expected.Affinity == nil {
		return
	}
	merged := ptr.Deref(expected.Affinity, corev1.Affinity{})
	merged.NodeAffinity = ptr.Deref(s.Affinity, corev1.Affinity{}).NodeAffinity
	expected.Affinity = &merged
	if s.Affinity == nil && merged == (corev1.Affinity{}) {
		expected.Affinity = nil
	}
}

func allowResources(expected, containers []corev1.Container) {
	if len(expected) != len(containers) {
		return
	}
	for i := range expected {
		if expected[i].Name == containers[i].Name {
			expected[i].Resources = containers[i].Resources
		}
	}
}
