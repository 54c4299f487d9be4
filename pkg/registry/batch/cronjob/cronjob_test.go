// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cronjob_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"minik8s.io/minik8s/pkg/registry/batch/cronjob"
	"minik8s.io/minik8s/pkg/registry/registrytest"
)

func valid() *batchv1.CronJob {
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: batchv1.CronJobSpec{
			Schedule: "*/5 * * * *",
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyOnFailure,
				Containers:    []corev1.Container{{Name: "c", Image: "i"}},
			}}}},
		},
	}
}

func TestResource(t *testing.T) {
	registrytest.Run(t, cronjob.Resource, registrytest.Case[*batchv1.CronJob]{
		AddToScheme:  batchv1.AddToScheme,
		Valid:        valid,
		Update:       func(c *batchv1.CronJob) { c.Spec.Schedule, c.Spec.TimeZone = "@hourly", new("Etc/UTC") },
		StatusUpdate: func(c *batchv1.CronJob) { c.Status.Active = []corev1.ObjectReference{{Name: "x"}} },
		Invalid: []registrytest.Invalid[*batchv1.CronJob]{
			{Name: "long name", Mutate: func(c *batchv1.CronJob) { c.Name = strings.Repeat("x", 53) }, Field: "metadata.name"},
			{Name: "no schedule", Mutate: func(c *batchv1.CronJob) { c.Spec.Schedule = "" }, Field: "spec.schedule"},
			{Name: "schedule", Mutate: func(c *batchv1.CronJob) { c.Spec.Schedule = "60 * * * *" }, Field: "spec.schedule"},
			{Name: "schedule that the parser cannot bear", Mutate: func(c *batchv1.CronJob) { c.Spec.Schedule = "TZ=0" }, Field: "spec.schedule"},
			{Name: "zone in the schedule", Mutate: func(c *batchv1.CronJob) { c.Spec.Schedule = "TZ=UTC 1 * * * *" }, Field: "spec.schedule"},
			{Name: "empty zone", Mutate: func(c *batchv1.CronJob) { c.Spec.TimeZone = new("") }, Field: "spec.timeZone"},
			{Name: "path as zone", Mutate: func(c *batchv1.CronJob) { c.Spec.TimeZone = new("../UTC") }, Field: "spec.timeZone"},
			{Name: "local zone", Mutate: func(c *batchv1.CronJob) { c.Spec.TimeZone = new("local") }, Field: "spec.timeZone"},
			{Name: "unknown zone", Mutate: func(c *batchv1.CronJob) { c.Spec.TimeZone = new("Europe/Atlantis") }, Field: "spec.timeZone"},
			{Name: "concurrency", Mutate: func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = "x" }, Field: "spec.concurrencyPolicy"},
			{Name: "negative limit", Mutate: func(c *batchv1.CronJob) { c.Spec.FailedJobsHistoryLimit = new(int32(-1)) }, Field: "spec.failedJobsHistoryLimit"},
			{Name: "selector", Mutate: func(c *batchv1.CronJob) {
				c.Spec.JobTemplate.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			}, Field: "spec.jobTemplate.spec.selector"},
			{Name: "manual selector", Mutate: func(c *batchv1.CronJob) { c.Spec.JobTemplate.Spec.ManualSelector = new(true) }, Field: "spec.jobTemplate.spec.manualSelector"},
			{Name: "restart policy", Mutate: func(c *batchv1.CronJob) { c.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = "Always" }, Field: "spec.jobTemplate.spec.template.spec.restartPolicy"},
		},
		InvalidUpdates: []registrytest.InvalidUpdate[*batchv1.CronJob]{
			{Name: "zone", Mutate: func(c *batchv1.CronJob) { c.Spec.TimeZone = new("-/x") }, Field: "spec.timeZone"},
			{Name: "zone in the schedule", Mutate: func(c *batchv1.CronJob) { c.Spec.Schedule = "CRON_TZ=UTC 1 * * * *" }, Field: "spec.schedule"},
		},
		Row: []any{"c", "*/5 * * * *", "<none>", "False", int64(0), "<none>"},
	})
}

// TestOldObjects lets updates keep what was stored under older rules, and nothing beyond it.
func TestOldObjects(t *testing.T) {
	for _, tc := range []struct {
		name   string
		stored func(*batchv1.CronJob)
		change func(*batchv1.CronJob)
		want   string // field of the only error
	}{
		{name: "zone in the schedule", stored: func(c *batchv1.CronJob) { c.Spec.Schedule = "TZ=UTC 1 * * * *" }, change: func(*batchv1.CronJob) {}},
		{name: "two zones", stored: func(c *batchv1.CronJob) { c.Spec.Schedule = "TZ=UTC 1 * * * *" },
			change: func(c *batchv1.CronJob) { c.Spec.TimeZone = new("UTC") }, want: "spec.schedule"},
		{name: "unknown zone", stored: func(c *batchv1.CronJob) { c.Spec.TimeZone = new("Europe/Atlantis") }, change: func(*batchv1.CronJob) {}},
		{name: "long name", stored: func(c *batchv1.CronJob) { c.Name = strings.Repeat("x", 60) }, change: func(*batchv1.CronJob) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := valid()
			tc.stored(old)
			now := old.DeepCopy()
			tc.change(now)
			cronjob.Resource.Default(old)
			cronjob.Resource.Default(now)
			errs := cronjob.Resource.ValidateUpdate(t.Context(), now, old)
			if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || errs[0].Field != tc.want) {
				t.Errorf("errors are %v, want one of %q", errs, tc.want)
			}
		})
	}
}
