// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package jobspec has the defaults and validation of what a Job does, in Jobs and in the templates of CronJobs. Touch it
// when the job spec gets another field.
package jobspec

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/core/podtemplate"
)

// SetDefaults fills in what Jobs and templates of Jobs have in common.
func SetDefaults(s *batchv1.JobSpec) {
	podtemplate.SetDefaults(&s.Template)
	if s.PodFailurePolicy == nil {
		return
	}
	for _, rule := range s.PodFailurePolicy.Rules {
		for i := range rule.OnPodConditions {
			if rule.OnPodConditions[i].Status == "" {
				rule.OnPodConditions[i].Status = corev1.ConditionTrue
			}
		}
	}
}

// DropDisabled drops the fields that no feature gate turns on; old is the spec before an update, nil on create.
func DropDisabled(s, old *batchv1.JobSpec) {
	var oldTemplate *corev1.PodTemplateSpec
	if old != nil {
		oldTemplate = &old.Template
	}
	s.Scheduling = nil // WorkloadWithJob is alpha
	podtemplate.DropDisabled(&s.Template, oldTemplate)
}

// IsIndexed tells whether each completion has a number of its own.
func IsIndexed(s *batchv1.JobSpec) bool {
	return ptr.Deref(s.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

// Warnings tells what is valid in a spec at path and yet surely not meant.
func Warnings(s *batchv1.JobSpec, path *field.Path) []string {
	var out []string
	if IsIndexed(s) && ptr.Deref(s.Completions, 0) > manyCompletions && ptr.Deref(s.Parallelism, 0) > highParallelism {
		out = append(out, fmt.Sprintf("%s: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail", path))
	}
	return append(out, podtemplate.Warnings(&s.Template.ObjectMeta, &s.Template.Spec, path.Child("template"))...)
}
