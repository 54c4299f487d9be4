// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package cronjob serves CronJobs: Jobs that are made again and again on a schedule. Touch it when their rules change.
package cronjob

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/batch/jobspec"
	"minik8s.io/minik8s/pkg/registry"
	"minik8s.io/minik8s/pkg/registry/apps/workload"
)

var (
	docs       = batchv1.CronJobSpec{}.SwaggerDoc()
	statusDocs = batchv1.CronJobStatus{}.SwaggerDoc()
)

// Resource describes cronjobs.
var Resource = &registry.Resource[*batchv1.CronJob]{
	Kind:             batchv1.SchemeGroupVersion.WithKind("CronJob"),
	Name:             "cronjobs",
	ShortNames:       []string{"cj"},
	Categories:       []string{"all"},
	New:              func() *batchv1.CronJob { return &batchv1.CronJob{} },
	NewList:          func() runtime.Object { return &batchv1.CronJobList{} },
	Default:          setDefaults,
	PrepareForCreate: func(_ context.Context, c *batchv1.CronJob) { jobspec.DropDisabled(&c.Spec.JobTemplate.Spec, nil) },
	PrepareForUpdate: func(_ context.Context, c, old *batchv1.CronJob) {
		jobspec.DropDisabled(&c.Spec.JobTemplate.Spec, &old.Spec.JobTemplate.Spec)
	},
	Validate:       validate,
	ValidateUpdate: validateUpdate,
	Warnings:       warnings,
	Spec:           func(c *batchv1.CronJob) any { return c.Spec },
	Status:         &registry.Status[*batchv1.CronJob]{Metadata: registry.MinimalMetadata},
	Columns: append([]metav1.TableColumnDefinition{
		registry.NameColumn,
		registry.Column("Schedule", "string", docs["schedule"]),
		registry.Column("Timezone", "string", docs["timeZone"]),
		registry.Column("Suspend", "boolean", docs["suspend"]),
		registry.Column("Active", "integer", statusDocs["active"]),
		registry.Column("Last Schedule", "string", statusDocs["lastScheduleTime"]),
		registry.AgeColumn,
	}, workload.WideColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"])...),
	Row: row,
}

func setDefaults(c *batchv1.CronJob) {
	s := &c.Spec
	if s.ConcurrencyPolicy == "" {
		s.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	if s.Suspend == nil {
		s.Suspend = new(false)
	}
	if s.SuccessfulJobsHistoryLimit == nil {
		s.SuccessfulJobsHistoryLimit = new(int32(3))
	}
	if s.FailedJobsHistoryLimit == nil {
		s.FailedJobsHistoryLimit = new(int32(1))
	}
	jobspec.SetDefaults(&s.JobTemplate.Spec)
}

func warnings(_ context.Context, c, old *batchv1.CronJob) []string {
	var out []string
	if old == nil {
		out = workload.NameWarnings(c.Name)
	}
	if old == nil || c.Generation != old.Generation {
		out = append(out, jobspec.Warnings(&c.Spec.JobTemplate.Spec, field.NewPath("spec", "jobTemplate", "spec"))...)
	}
	if old != nil && strings.Contains(c.Spec.Schedule, "TZ") {
		// The path is upstream's.
		out = append(out, fmt.Sprintf("cannot use TZ or CRON_TZ in %s, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", field.NewPath("spec", "spec", "schedule")))
	}
	return out
}

func row(c *batchv1.CronJob) []any {
	suspend := "<unset>"
	if c.Spec.Suspend != nil {
		suspend = "False"
		if *c.Spec.Suspend {
			suspend = "True"
		}
	}
	last := "<none>"
	if c.Status.LastScheduleTime != nil {
		last = registry.Age(*c.Status.LastScheduleTime)
	}
	job := &c.Spec.JobTemplate.Spec
	return append([]any{
		c.Name, c.Spec.Schedule, ptr.Deref(c.Spec.TimeZone, "<none>"), suspend, int64(len(c.Status.Active)), last, registry.Age(c.CreationTimestamp),
	}, workload.WideCells(&job.Template.Spec, metav1.FormatLabelSelector(job.Selector))...)
}
