// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // time zones, on machines that have none

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
)

// lateness is added to the time of a start, in case that clocks were set meanwhile.
const lateness = 100 * time.Millisecond

// manyMissed is the number of missed starts that is worth a warning: it rather comes from a wrong clock than from a
// weekend without controllers.
const manyMissed = 100

// Parse reads the schedule of a CronJob, which is in its time zone. A time zone that is not known is left out.
func Parse(cj *batchv1.CronJob) (schedule cron.Schedule, err error) {
	// The parser panics on some of what it cannot read.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	spec := cj.Spec.Schedule
	if cj.Spec.TimeZone != nil && !hasOwnZone(cj) {
		if _, err := time.LoadLocation(*cj.Spec.TimeZone); err == nil {
			spec = "TZ=" + *cj.Spec.TimeZone + " " + spec
		}
	}
	return cron.ParseStandard(spec)
}

// hasOwnZone reports whether the time zone is in the schedule itself, where it works but is not supported.
func hasOwnZone(cj *batchv1.CronJob) bool { return strings.Contains(cj.Spec.Schedule, "TZ") }

// starts is what a schedule has for the time up to now.
type starts struct {
	// since is where the time begins.
	since time.Time
	// last is the last start that is due; zero if there is none.
	last time.Time
	// missed is about how many starts before the last one were due too.
	missed int64
}

// due returns the starts of a CronJob that are due. What is older than startingDeadlineSeconds is left out if
// withinDeadline. A schedule that never comes, such as the 31st of February, is an error.
func due(cj *batchv1.CronJob, schedule cron.Schedule, now time.Time, withinDeadline bool) (starts, error) {
	s := starts{since: cj.CreationTimestamp.Time}
	if cj.Status.LastScheduleTime != nil {
		s.since = cj.Status.LastScheduleTime.Time
	}
	if withinDeadline && cj.Spec.StartingDeadlineSeconds != nil {
		deadline := now.Add(-time.Duration(*cj.Spec.StartingDeadlineSeconds) * time.Second)
		if deadline.After(s.since) {
			s.since = deadline
		}
	}
	first := schedule.Next(s.since)
	if now.Before(first) {
		return s, nil
	}
	second := schedule.Next(first)
	if now.Before(second) {
		s.last = first
		return s, nil
	}
	interval := second.Sub(first).Round(time.Second)
	if interval < time.Second {
		return s, errors.New("time difference between two schedules is less than 1 second")
	}
	// Years of starts are not gone through one by one: if they are as far apart as the first two, the last one is near
	// here. One interval earlier is a safe place to search from, as starts need not be regular.
	s.missed = int64(now.Sub(first)/interval) + 1
	from := first.Add(time.Duration(s.missed-2) * interval)
	for t := schedule.Next(from); !t.After(now); t = schedule.Next(t) {
		s.last = t
	}
	return s, nil
}

// untilNext returns the time until the next start after now.
func untilNext(cj *batchv1.CronJob, schedule cron.Schedule, now time.Time) time.Duration {
	from := now
	if s, err := due(cj, schedule, now, false); err == nil {
		switch {
		case !s.last.IsZero():
			from = s.last
		case s.missed == 0:
			// Intervals such as @every 5m count from the beginning.
			from = s.since
		}
	}
	return schedule.Next(from).Add(lateness).Sub(now)
}

// jobName returns the name of the Job for a start. It is the same in every try, so that there cannot be two.
func jobName(cj *batchv1.CronJob, start time.Time) string {
	return fmt.Sprintf("%s-%d", cj.Name, start.Unix()/60)
}
