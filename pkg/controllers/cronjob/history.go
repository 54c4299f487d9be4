// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// outcome returns JobComplete or JobFailed for a finished Job, and an empty string for one that goes on.
func outcome(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// expired returns the finished Jobs beyond the history limits, the oldest first.
func expired(cj *batchv1.CronJob, jobs []*batchv1.Job) []*batchv1.Job {
	var expired []*batchv1.Job
	for result, limit := range map[batchv1.JobConditionType]*int32{
		batchv1.JobComplete: cj.Spec.SuccessfulJobsHistoryLimit,
		batchv1.JobFailed:   cj.Spec.FailedJobsHistoryLimit,
	} {
		if limit == nil {
			continue
		}
		var finished []*batchv1.Job
		for _, job := range jobs {
			if outcome(job) == result {
				finished = append(finished, job)
			}
		}
		slices.SortFunc(finished, byStart)
		expired = append(expired, finished[:max(0, len(finished)-int(*limit))]...)
	}
	slices.SortFunc(expired, byStart)
	return expired
}

// byStart puts the older Job first; one that never started is the youngest.
func byStart(a, b *batchv1.Job) int {
	started := func(job *batchv1.Job) int {
		if job.Status.StartTime == nil {
			return 1
		}
		return 0
	}
	order := cmp.Compare(started(a), started(b))
	if order == 0 && a.Status.StartTime != nil {
		order = a.Status.StartTime.Compare(b.Status.StartTime.Time)
	}
	return cmp.Or(order, cmp.Compare(a.Name, b.Name))
}

// cleanUp deletes the Jobs beyond the history limits.
func (r *Reconciler) cleanUp(ctx context.Context, cj *batchv1.CronJob, jobs []*batchv1.Job) error {
	var errs []error
	for _, job := range expired(cj, jobs) {
		errs = append(errs, r.remove(ctx, cj, job))
	}
	return errors.Join(errs...)
}

// remove deletes a Job with its pods and takes it off the active list.
func (r *Reconciler) remove(ctx context.Context, cj *batchv1.CronJob, job *batchv1.Job) error {
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if err := r.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID}, background); err != nil {
		r.Events.Eventf(cj, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
		return fmt.Errorf("deleting job %q: %w", job.Name, err)
	}
	deactivate(cj, job.UID)
	r.Events.Eventf(cj, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", job.Name)
	return nil
}

func deactivate(cj *batchv1.CronJob, uid types.UID) {
	cj.Status.Active = slices.DeleteFunc(cj.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}

func isActive(cj *batchv1.CronJob, uid types.UID) bool {
	return slices.ContainsFunc(cj.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}
