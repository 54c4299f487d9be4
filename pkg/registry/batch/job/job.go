// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package job serves Jobs: pods that run until enough of them have succeeded. Touch it when their rules change; what a
// CronJob's template shares with them is pkg/apis/batch/jobspec.
package job

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/batch/jobspec"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
)

// Resource describes jobs. Pods outlive them unless the client says otherwise, as they always did.
var Resource = &registry.Resource[*batchv1.Job]{
	Kind:                     batchv1.SchemeGroupVersion.WithKind("Job"),
	Name:                     "jobs",
	Categories:               []string{"all"},
	New:                      func() *batchv1.Job { return &batchv1.Job{} },
	NewList:                  func() runtime.Object { return &batchv1.JobList{} },
	DefaultGarbageCollection: rest.OrphanDependents,
	WarnOnDelete:             warnOnDelete,
	Default:                  setDefaults,
	PrepareForCreate: func(_ context.Context, j *batchv1.Job) {
		generateSelector(j)
		jobspec.DropDisabled(&j.Spec, nil)
	},
	PrepareForUpdate: func(_ context.Context, j, old *batchv1.Job) { jobspec.DropDisabled(&j.Spec, &old.Spec) },
	Validate:         validate,
	ValidateUpdate:   validateUpdate,
	Warnings: func(_ context.Context, j, old *batchv1.Job) []string {
		var out []string
		if old == nil {
			out = workload.NameWarnings(j.Name)
		} else if j.Generation == old.Generation {
			return nil
		}
		return append(out, jobspec.Warnings(&j.Spec, field.NewPath("spec"))...)
	},
	Spec:         func(j *batchv1.Job) any { return j.Spec },
	Status:       &registry.Status[*batchv1.Job]{Validate: validateStatus},
	UnknownField: "field label %q not supported for Job",
	Fields:       registry.Fields[*batchv1.Job]{"status.successful": func(j *batchv1.Job) string { return strconv.Itoa(int(j.Status.Succeeded)) }},
	Columns: append([]metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Status", "string", "Status of the job."),
		registry.Column("Completions", "string", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
		registry.Column("Duration", "string", "Time required to complete the job."),
		registry.AgeColumn,
	}, workload.WideColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"])...),
	Row: func(j *batchv1.Job) []any {
		return append([]any{j.Name, phase(j), completions(j), elapsed(&j.Status), registry.Age(j.CreationTimestamp)},
			workload.WideCells(&j.Spec.Template.Spec, metav1.FormatLabelSelector(j.Spec.Selector))...)
	},
}

func setDefaults(j *batchv1.Job) {
	s := &j.Spec
	jobspec.SetDefaults(s)
	if s.Completions == nil && s.Parallelism == nil {
		s.Completions = new(int32(1))
	}
	if s.Parallelism == nil {
		s.Parallelism = new(int32(1))
	}
	if s.BackoffLimit == nil {
		s.BackoffLimit = new(int32(6))
		if s.BackoffLimitPerIndex != nil {
			s.BackoffLimit = new(int32(math.MaxInt32))
		}
	}
	// The map is the template's own on purpose: as with upstream, labels that a create generates for the template become
	// the Job's too.
	if len(j.Labels) == 0 && s.Template.Labels != nil {
		j.Labels = s.Template.Labels
	}
	if s.CompletionMode == nil {
		s.CompletionMode = new(batchv1.NonIndexedCompletion)
	}
	if s.Suspend == nil {
		s.Suspend = new(false)
	}
	if s.PodReplacementPolicy == nil {
		s.PodReplacementPolicy = new(batchv1.TerminatingOrFailed)
		if s.PodFailurePolicy != nil {
			s.PodReplacementPolicy = new(batchv1.Failed)
		}
	}
	if s.ManualSelector == nil {
		s.ManualSelector = new(false)
	}
}

// generateSelector gives the template labels that no other Job's pods have and selects by one of them, unless the user
// wants to do so. Labels that are there already stay; validation compares them.
func generateSelector(j *batchv1.Job) {
	s := &j.Spec
	if ptr.Deref(s.ManualSelector, false) {
		return
	}
	if s.Template.Labels == nil {
		s.Template.Labels = map[string]string{}
	}
	setMissing(s.Template.Labels, legacyNameLabel, j.Name)
	setMissing(s.Template.Labels, batchv1.JobNameLabel, j.Name)
	setMissing(s.Template.Labels, legacyUIDLabel, string(j.UID))
	setMissing(s.Template.Labels, batchv1.ControllerUidLabel, string(j.UID))
	if len(j.Labels) == 0 {
		j.Labels = s.Template.Labels // as the defaults will find it, so that what is stored is what is read
	}
	if s.Selector == nil {
		s.Selector = &metav1.LabelSelector{}
	}
	if s.Selector.MatchLabels == nil {
		s.Selector.MatchLabels = map[string]string{}
	}
	setMissing(s.Selector.MatchLabels, batchv1.ControllerUidLabel, string(j.UID))
}

// The names that the generated labels had before they got a prefix.
const (
	legacyNameLabel = "job-name"
	legacyUIDLabel  = "controller-uid"
)

func setMissing(m map[string]string, key, value string) {
	if _, ok := m[key]; !ok {
		m[key] = value
	}
}

func warnOnDelete(options *metav1.DeleteOptions) []string {
	if options != nil && (options.PropagationPolicy != nil || options.OrphanDependents != nil) {
		return nil
	}
	return []string{"child pods are preserved by default when jobs are deleted; " +
		"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"}
}

func phase(j *batchv1.Job) string {
	switch {
	case hasCondition(j, batchv1.JobComplete):
		return "Complete"
	case hasCondition(j, batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case hasCondition(j, batchv1.JobSuspended):
		return "Suspended"
	case hasCondition(j, batchv1.JobFailureTarget):
		return "FailureTarget"
	case hasCondition(j, batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func completions(j *batchv1.Job) string {
	switch parallelism := ptr.Deref(j.Spec.Parallelism, 0); {
	case j.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	case parallelism > 1:
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, parallelism)
	default:
		return fmt.Sprintf("%d/1", j.Status.Succeeded)
	}
}

func elapsed(s *batchv1.JobStatus) string {
	switch {
	case s.StartTime == nil:
		return ""
	case s.CompletionTime == nil:
		return duration.HumanDuration(time.Since(s.StartTime.Time))
	default:
		return duration.HumanDuration(s.CompletionTime.Sub(s.StartTime.Time))
	}
}
