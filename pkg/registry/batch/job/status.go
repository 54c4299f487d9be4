// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/batch/jobspec"
)

func conditionIs(j *batchv1.Job, kind batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind && c.Status == status })
}

func hasCondition(j *batchv1.Job, kind batchv1.JobConditionType) bool {
	return conditionIs(j, kind, corev1.ConditionTrue)
}

func isFinished(j *batchv1.Job) bool {
	return hasCondition(j, batchv1.JobComplete) || hasCondition(j, batchv1.JobFailed)
}

// change tells which parts of a status an update changes. Rules look only at what has changed, so that a status that
// broke one before, or does since the spec changed, can still be written.
type change struct {
	finished, complete, failed, failureTarget, successCriteria                      bool
	completedIndexes, failedIndexes, active, ready, terminating, start, end, counts bool
}

func changeOf(j, old *batchv1.Job) change {
	flipped := func(kind batchv1.JobConditionType) bool { return hasCondition(j, kind) != hasCondition(old, kind) }
	s, was := &j.Status, &old.Status
	return change{
		finished:         isFinished(j) != isFinished(old),
		complete:         flipped(batchv1.JobComplete),
		failed:           flipped(batchv1.JobFailed),
		failureTarget:    flipped(batchv1.JobFailureTarget),
		successCriteria:  flipped(batchv1.JobSuccessCriteriaMet),
		completedIndexes: s.CompletedIndexes != was.CompletedIndexes,
		failedIndexes:    !ptr.Equal(s.FailedIndexes, was.FailedIndexes),
		active:           s.Active != was.Active,
		ready:            !ptr.Equal(s.Ready, was.Ready),
		terminating:      !ptr.Equal(s.Terminating, was.Terminating),
		start:            !ptr.Equal(s.StartTime, was.StartTime),
		end:              !ptr.Equal(s.CompletionTime, was.CompletionTime),
		counts:           !apiequality.Semantic.DeepEqual(s.UncountedTerminatedPods, was.UncountedTerminatedPods),
	}
}

// validateStatus holds controllers, of which managedBy allows any, to what clients of the Job API rely on.
func validateStatus(_ context.Context, j, old *batchv1.Job) field.ErrorList {
	path, c := field.NewPath("status"), changeOf(j, old)
	errs := validateCounts(&j.Status, path)
	errs = append(errs, validateConditions(j, old, c, path.Child("conditions"))...)
	errs = append(errs, validateTimes(j, old, c, path)...)
	errs = append(errs, validateFinished(j, c, path)...)
	errs = append(errs, validateIndexes(j, c, path)...)
	return append(errs, validateProgress(j, old, c, path)...)
}

func validateCounts(s *batchv1.JobStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"active", s.Active},
		{"succeeded", s.Succeeded},
		{"failed", s.Failed},
		{"ready", ptr.Deref(s.Ready, 0)},
		{"terminating", ptr.Deref(s.Terminating, 0)},
	} {
		errs = append(errs, apivalidation.ValidateNonnegativeField(int64(n.value), path.Child(n.name))...)
	}
	if s.UncountedTerminatedPods == nil {
		return errs
	}
	seen := sets.New[types.UID]()
	unique := func(uids []types.UID, p *field.Path) {
		for i, uid := range uids {
			if uid == "" {
				errs = append(errs, field.Invalid(p.Index(i), uid, "must not be empty"))
			} else if seen.Has(uid) {
				errs = append(errs, field.Duplicate(p.Index(i), uid))
			}
			seen.Insert(uid)
		}
	}
	unique(s.UncountedTerminatedPods.Succeeded, path.Child("uncountedTerminatedPods", "succeeded"))
	unique(s.UncountedTerminatedPods.Failed, path.Child("uncountedTerminatedPods", "failed"))
	return errs
}

func validateConditions(j, old *batchv1.Job, c change, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(when bool, message string) {
		if when {
			errs = append(errs, field.Invalid(path, field.OmitValueType{}, message))
		}
	}
	complete, failed := hasCondition(j, batchv1.JobComplete), hasCondition(j, batchv1.JobFailed)
	failing, succeeding := hasCondition(j, batchv1.JobFailureTarget), hasCondition(j, batchv1.JobSuccessCriteriaMet)
	refuse((c.complete || c.failed) && complete && failed, "cannot set Complete=True and Failed=true conditions")
	refuse((c.complete || c.failureTarget) && complete && failing, "cannot set Complete=True and FailureTarget=true conditions")
	refuse((c.failed || c.failedIndexes) && failed && !failing, "cannot set Failed=True condition without the FailureTarget=true condition")
	refuse((c.complete || c.successCriteria) && complete && !succeeding, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	refuse(succeeding && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
	refuse(succeeding && failing, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	refuse(j.Spec.SuccessPolicy != nil && !succeeding && complete, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		refuse(hasCondition(old, kind) && !hasCondition(j, kind), fmt.Sprintf("cannot disable the terminal %s=True condition", kind))
	}
	succeeded := hasCondition(old, batchv1.JobSuccessCriteriaMet)
	refuse(succeeded && !succeeding, "cannot disable the SuccessCriteriaMet=True condition")
	refuse(hasCondition(old, batchv1.JobComplete) && !succeeded && succeeding, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	return errs
}

func validateTimes(j, old *batchv1.Job, c change, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	start, end := j.Status.StartTime, j.Status.CompletionTime
	startPath, endPath := path.Child("startTime"), path.Child("completionTime")
	complete := hasCondition(j, batchv1.JobComplete)
	if (c.complete || c.end) && end != nil && !complete {
		errs = append(errs, field.Invalid(endPath, end, "cannot set completionTime when there is no Complete=True condition"))
	}
	if (c.complete || c.end) && end == nil && complete {
		errs = append(errs, field.Required(endPath, "completionTime is required for Complete jobs"))
	}
	if (c.start || c.end) && start != nil && end != nil && end.Before(start) {
		errs = append(errs, field.Invalid(endPath, end, "must be equal to or after `startTime`"))
	}
	if c.end && end != nil && old.Status.CompletionTime != nil {
		errs = append(errs, field.Invalid(endPath, end, "field is immutable"))
	}
	neverRuns := ptr.Deref(j.Spec.Suspend, false) && ptr.Equal(j.Spec.Completions, new(int32(0)))
	if (c.finished || c.start) && !neverRuns && start == nil && isFinished(j) {
		errs = append(errs, field.Required(startPath, "startTime is required for finished job"))
	}
	resumes := hasCondition(old, batchv1.JobSuspended) && conditionIs(j, batchv1.JobSuspended, corev1.ConditionFalse)
	if c.start && !resumes && old.Status.StartTime != nil && !ptr.Deref(j.Spec.Suspend, false) {
		errs = append(errs, field.Invalid(startPath, start, "field is immutable for unsuspended job once set"))
	}
	return errs
}

// validateFinished refuses pods that a finished Job cannot have any more.
func validateFinished(j *batchv1.Job, c change, path *field.Path) field.ErrorList {
	if !isFinished(j) {
		return nil
	}
	var errs field.ErrorList
	s := &j.Status
	if (c.finished || c.active) && s.Active > 0 {
		errs = append(errs, field.Invalid(path.Child("active"), s.Active, "active>0 is invalid for finished job"))
	}
	if n := ptr.Deref(s.Terminating, 0); (c.finished || c.terminating) && n > 0 {
		errs = append(errs, field.Invalid(path.Child("terminating"), n, "terminating>0 is invalid for finished job"))
	}
	if u := s.UncountedTerminatedPods; (c.finished || c.counts) && u != nil && len(u.Failed)+len(u.Succeeded) > 0 {
		errs = append(errs, field.Invalid(path.Child("uncountedTerminatedPods"), u, "must be empty for finished job"))
	}
	return errs
}

func validateIndexes(j *batchv1.Job, c change, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	completedPath, failedPath := path.Child("completedIndexes"), path.Child("failedIndexes")
	completed, failed := j.Status.CompletedIndexes, j.Status.FailedIndexes
	if c.completedIndexes {
		if j.Spec.Completions != nil {
			if _, err := jobspec.CountIndexes(completed, *j.Spec.Completions); err != nil {
				errs = append(errs, field.Invalid(completedPath, completed, fmt.Sprintf("error parsing completedIndexes: %s", err)))
			}
		}
		if completed != "" && !jobspec.IsIndexed(&j.Spec) {
			errs = append(errs, field.Invalid(completedPath, completed, "cannot set non-empty completedIndexes when non-indexed completion mode"))
		}
	}
	if failed == nil {
		return errs
	}
	if c.failedIndexes && j.Spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(failedPath, *failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
	}
	if j.Spec.Completions == nil {
		return errs
	}
	if c.failedIndexes && j.Spec.BackoffLimitPerIndex != nil {
		if _, err := jobspec.CountIndexes(*failed, *j.Spec.Completions); err != nil {
			errs = append(errs, field.Invalid(failedPath, *failed, fmt.Sprintf("error parsing failedIndexes: %s", err)))
		}
	}
	if c.failedIndexes || c.completedIndexes {
		if err := jobspec.ValidateDisjoint(completed, *failed, *j.Spec.Completions); err != nil {
			errs = append(errs, field.Invalid(failedPath, *failed, err.Error()))
		}
	}
	return errs
}

// validateProgress refuses numbers that go down, except the successes of an indexed Job that was scaled down.
func validateProgress(j, old *batchv1.Job, c change, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	s, was := &j.Status, &old.Status
	if ready := ptr.Deref(s.Ready, 0); (c.ready || c.active) && s.Ready != nil && ready > s.Active {
		errs = append(errs, field.Invalid(path.Child("ready"), ready, "cannot set more ready pods than active"))
	}
	if s.Failed < was.Failed {
		errs = append(errs, field.Invalid(path.Child("failed"), s.Failed, "cannot decrease the failed counter"))
	}
	elastic := jobspec.IsIndexed(&j.Spec) && ptr.Equal(j.Spec.Completions, j.Spec.Parallelism)
	if s.Succeeded < was.Succeeded && !elastic {
		errs = append(errs, field.Invalid(path.Child("succeeded"), s.Succeeded, "cannot decrease the succeeded counter"))
	}
	return errs
}
