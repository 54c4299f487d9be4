// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
)

// cleanUpDelay is how long after old Jobs could not be removed that is tried again.
const cleanUpDelay = time.Minute

// Reconcile removes old Jobs of the CronJob in req, notes which ones run, and starts one if it is time.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cj := &batchv1.CronJob{}
	if err := r.Client.Get(ctx, req.NamespacedName, cj); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	jobs, err := r.jobs(ctx, cj)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := cj.Status.DeepCopy()
	cleanErr := r.cleanUp(ctx, cj, jobs)
	wait, err := r.advance(ctx, cj, jobs)
	if !equality.Semantic.DeepEqual(*before, cj.Status) {
		if err := r.Client.Status().Update(ctx, cj); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, errors.Join(cleanErr, fmt.Errorf("updating the status of CronJob %q: %w", req, err))
		}
	}
	if cleanErr != nil && err == nil && wait > 0 {
		// After an error it is up to the queue when the next pass is, which may be long after the next start.
		ctrl.LoggerFrom(ctx).Error(cleanErr, "Removing old Jobs")
		return reconcile.Result{RequeueAfter: min(wait, cleanUpDelay)}, nil
	}
	return reconcile.Result{RequeueAfter: wait}, errors.Join(cleanErr, err)
}

// jobs returns the Jobs of the CronJob; they are copies.
func (r *Reconciler) jobs(ctx context.Context, cj *batchv1.CronJob) ([]*batchv1.Job, error) {
	jobs, err := adoption.Owned[*batchv1.Job](ctx, r.Client, &batchv1.JobList{}, cj)
	if err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	return jobs, nil
}

// advance brings the status in line with the Jobs and starts the Job that is due. wait is the time until the next
// start; 0 means that there is none before the CronJob changes.
func (r *Reconciler) advance(
	ctx context.Context, cj *batchv1.CronJob, jobs []*batchv1.Job,
) (wait time.Duration, err error) {
	if err := r.noteJobs(ctx, cj, jobs); err != nil {
		return 0, err
	}
	if cj.DeletionTimestamp != nil {
		return 0, nil
	}
	if cj.Spec.TimeZone != nil {
		if _, err := time.LoadLocation(*cj.Spec.TimeZone); err != nil {
			r.Events.Eventf(cj, corev1.EventTypeWarning, "UnknownTimeZone", "invalid timeZone: %q: %s", *cj.Spec.TimeZone, err)
			return 0, nil
		}
	}
	if ptr.Deref(cj.Spec.Suspend, false) {
		return 0, nil
	}
	if hasOwnZone(cj) {
		r.Events.Eventf(cj, corev1.EventTypeWarning, "UnsupportedSchedule",
			"CRON_TZ or TZ used in schedule %q is not officially supported, see %s for more details", cj.Spec.Schedule,
			"https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/")
	}
	schedule, err := Parse(cj)
	if err != nil {
		r.Events.Eventf(cj, corev1.EventTypeWarning, "UnparseableSchedule",
			"unparseable schedule: %q : %s", cj.Spec.Schedule, err)
		return 0, nil
	}
	now := r.Clock.Now()
	found, err := due(cj, schedule, now, true)
	if err != nil {
		r.Events.Eventf(cj, corev1.EventTypeWarning, "InvalidSchedule", "invalid schedule: %s : %s", cj.Spec.Schedule, err)
		return 0, nil
	}
	if !found.last.IsZero() {
		if found.missed > manyMissed {
			r.Events.Event(cj, corev1.EventTypeWarning, "TooManyMissedTimes",
				"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
		}
		if err := r.start(ctx, cj, found.last); err != nil {
			return 0, err
		}
	}
	return untilNext(cj, schedule, now), nil
}

// noteJobs takes finished and missing Jobs off the active list and notes the last success.
func (r *Reconciler) noteJobs(ctx context.Context, cj *batchv1.CronJob, jobs []*batchv1.Job) error {
	known := map[types.UID]bool{}
	for _, job := range jobs {
		known[job.UID] = true
		result, active := outcome(job), isActive(cj, job.UID)
		if result == "" && !active {
			live := &batchv1.CronJob{}
			if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cj), live); err != nil {
				return fmt.Errorf("reading the active list: %w", err)
			}
			if isActive(live, job.UID) {
				cj.Status.Active = live.Status.Active // the cache is behind
			} else {
				// The process ended before it could write the status, or somebody else made the Job.
				r.Events.Eventf(cj, corev1.EventTypeWarning, "UnexpectedJob",
					"Saw a job that the controller did not create or forgot: %s", job.Name)
			}
		}
		if result != "" && active {
			deactivate(cj, job.UID)
			r.Events.Eventf(cj, corev1.EventTypeNormal, "SawCompletedJob",
				"Saw completed job: %s, condition: %v", job.Name, result)
		}
		if end := job.Status.CompletionTime; result == batchv1.JobComplete && end != nil {
			if last := cj.Status.LastSuccessfulTime; last == nil || last.Before(end) {
				cj.Status.LastSuccessfulTime = end
			}
		}
	}
	for _, ref := range slices.Clone(cj.Status.Active) {
		if known[ref.UID] {
			continue
		}
		// The cache may be behind: the live answer decides whether another Job may start.
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, &batchv1.Job{})
		if apierrors.IsNotFound(err) {
			r.Events.Eventf(cj, corev1.EventTypeNormal, "MissingJob", "Active job went missing: %v", ref.Name)
			deactivate(cj, ref.UID)
			continue
		}
		if err != nil {
			return fmt.Errorf("reading job %q: %w", ref.Name, err)
		}
	}
	return nil
}

// start makes the Job for a time at which one is due, unless the policies forbid it.
func (r *Reconciler) start(ctx context.Context, cj *batchv1.CronJob, at time.Time) error {
	named := func(ref corev1.ObjectReference) bool {
		return ref.Name == jobName(cj, at) && ref.Namespace == cj.Namespace
	}
	if slices.ContainsFunc(cj.Status.Active, named) || cj.Status.LastScheduleTime.Equal(&metav1.Time{Time: at}) {
		return nil
	}
	if len(cj.Status.Active) > 0 {
		switch cj.Spec.ConcurrencyPolicy {
		case batchv1.ForbidConcurrent:
			r.Events.Event(cj, corev1.EventTypeNormal, "JobAlreadyActive",
				"Not starting job because prior execution is running and concurrency policy is Forbid")
			return nil
		case batchv1.ReplaceConcurrent:
			if err := r.removeActive(ctx, cj); err != nil {
				return err
			}
		}
	}
	job, err := r.create(ctx, cj, at)
	if err != nil || job == nil {
		return err
	}
	ref, err := reference.GetReference(r.Client.Scheme(), job)
	if err != nil {
		return fmt.Errorf("unable to make object reference for job %q: %w", job.Name, err)
	}
	cj.Status.Active = append(cj.Status.Active, *ref)
	cj.Status.LastScheduleTime = &metav1.Time{Time: at}
	return nil
}

// removeActive deletes the Jobs that run, to make room for the next one.
func (r *Reconciler) removeActive(ctx context.Context, cj *batchv1.CronJob) error {
	for _, ref := range slices.Clone(cj.Status.Active) {
		job := &batchv1.Job{}
		if err := r.Live.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, job); err != nil {
			r.Events.Eventf(cj, corev1.EventTypeWarning, "FailedGet", "Get job: %v", err)
			return fmt.Errorf("reading job %q: %w", ref.Name, err)
		}
		if err := r.remove(ctx, cj, job); err != nil {
			return fmt.Errorf("could not replace job %s/%s: %w", job.Namespace, job.Name, err)
		}
	}
	return nil
}

// create makes the Job for a start, or finds the one that an earlier try made. It returns nil if there is one that is
// none of this CronJob's business any more.
func (r *Reconciler) create(ctx context.Context, cj *batchv1.CronJob, at time.Time) (*batchv1.Job, error) {
	job, err := newJob(cj, at)
	if err != nil {
		return nil, err
	}
	err = r.Client.Create(ctx, job)
	switch {
	case apierrors.IsAlreadyExists(err):
		existing := &batchv1.Job{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), existing); err != nil {
			return nil, fmt.Errorf("reading the job that exists already: %w", err)
		}
		if !metav1.IsControlledBy(existing, cj) || isActive(cj, existing.UID) {
			return nil, nil
		}
		return existing, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, fmt.Errorf("creating job %q: %w", job.Name, err)
	case err != nil:
		r.Events.Eventf(cj, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
		return nil, fmt.Errorf("creating job %q: %w", job.Name, err)
	}
	creationSkew.Observe(job.CreationTimestamp.Sub(at).Seconds())
	r.Events.Eventf(cj, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %v", job.Name)
	return job, nil
}

// newJob returns the Job for a start. Its annotation has the time in the CronJob's time zone.
func newJob(cj *batchv1.CronJob, at time.Time) (*batchv1.Job, error) {
	zone, err := time.LoadLocation(ptr.Deref(cj.Spec.TimeZone, ""))
	if err != nil {
		return nil, fmt.Errorf("loading the time zone: %w", err)
	}
	template := cj.Spec.JobTemplate.DeepCopy()
	annotations := map[string]string{}
	maps.Copy(annotations, template.Annotations)
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = at.In(zone).Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       cj.Namespace,
			Name:            jobName(cj, at),
			Labels:          template.Labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cj, kind)},
		},
		Spec: template.Spec,
	}, nil
}
