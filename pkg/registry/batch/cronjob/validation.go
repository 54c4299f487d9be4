// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // time zones, on machines that have none

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"minik8s.io/minik8s/pkg/apis/batch/jobspec"
)

// maxName leaves room for the eleven characters that the name of each Job has more.
const maxName = validation.DNS1035LabelMaxLength - 11

var concurrencyPolicies = []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent}

func validate(_ context.Context, c *batchv1.CronJob) field.ErrorList {
	errs := validateSpec(&c.Spec, nil)
	if len(c.Name) > maxName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, fmt.Sprintf("must be no more than %d characters", maxName)))
	}
	return errs
}

// validateUpdate lets a name stay too long: nobody could change it.
func validateUpdate(_ context.Context, c, old *batchv1.CronJob) field.ErrorList {
	return validateSpec(&c.Spec, &old.Spec)
}

// validateSpec checks a spec; old is nil on create.
func validateSpec(s, old *batchv1.CronJobSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateSchedule(s, old != nil && strings.Contains(old.Schedule, "TZ"), path.Child("schedule"))
	errs = append(errs, apivalidation.ValidateNonnegativeField(ptr.Deref(s.StartingDeadlineSeconds, 0), path.Child("startingDeadlineSeconds"))...)
	if old == nil || !ptr.Equal(s.TimeZone, old.TimeZone) {
		errs = append(errs, validateTimeZone(s.TimeZone, path.Child("timeZone"))...)
	}
	if s.ConcurrencyPolicy == "" {
		errs = append(errs, field.Required(path.Child("concurrencyPolicy"), ""))
	} else if !slices.Contains(concurrencyPolicies, s.ConcurrencyPolicy) {
		errs = append(errs, field.NotSupported(path.Child("concurrencyPolicy"), s.ConcurrencyPolicy, concurrencyPolicies))
	}
	var oldTemplate *batchv1.JobSpec
	if old != nil {
		oldTemplate = &old.JobTemplate.Spec
	}
	errs = append(errs, validateTemplate(&s.JobTemplate.Spec, oldTemplate, path.Child("jobTemplate", "spec"))...)
	errs = append(errs, apivalidation.ValidateNonnegativeField(int64(ptr.Deref(s.SuccessfulJobsHistoryLimit, 0)), path.Child("successfulJobsHistoryLimit"))...)
	return append(errs, apivalidation.ValidateNonnegativeField(int64(ptr.Deref(s.FailedJobsHistoryLimit, 0)), path.Child("failedJobsHistoryLimit"))...)
}

// validateTemplate refuses a selector, which every Job gets for itself.
func validateTemplate(s, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := jobspec.Validate(s, old, path)
	if s.Selector != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), s.Selector, "`selector` will be auto-generated"))
	}
	if ptr.Deref(s.ManualSelector, false) {
		errs = append(errs, field.NotSupported(path.Child("manualSelector"), *s.ManualSelector, []string{"nil", "false"}))
	}
	return errs
}

// validateSchedule checks the schedule. The parser understands a time zone in it, which only those may keep that have it.
func validateSchedule(s *batchv1.CronJobSpec, zoneAllowed bool, path *field.Path) field.ErrorList {
	if s.Schedule == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if err := parse(s.Schedule); err != nil {
		errs = append(errs, field.Invalid(path, s.Schedule, err.Error()))
	}
	switch zone := strings.Contains(s.Schedule, "TZ"); {
	case zone && !zoneAllowed:
		errs = append(errs, field.Invalid(path, s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case zone && s.TimeZone != nil:
		errs = append(errs, field.Invalid(path, s.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// parse tells what is wrong with a schedule; the parser panics on some, such as a time zone without anything after it.
func parse(schedule string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	_, err = cron.ParseStandard(schedule)
	return err
}

// zonePart is what may stand between the slashes of a time zone's name, see
// https://data.iana.org/time-zones/theory.html#naming. Digits and + are for names older than these rules.
var zonePart = regexp.MustCompile(`^[A-Za-z0-9._+][A-Za-z0-9._+-]{0,13}$`)

func validateTimeZone(name *string, path *field.Path) field.ErrorList {
	if name == nil {
		return nil
	}
	if *name == "" {
		return field.ErrorList{field.Invalid(path, *name, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(*name, "/") {
		if part == "." || part == ".." || !zonePart.MatchString(part) {
			return field.ErrorList{field.Invalid(path, *name, fmt.Sprintf("unknown time zone %s", *name))}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(*name, "Local") {
		errs = append(errs, field.Invalid(path, *name, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(*name); err != nil {
		errs = append(errs, field.Invalid(path, *name, err.Error()))
	}
	return errs
}
