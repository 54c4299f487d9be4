// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// utc reads a time in UTC.
func utc(tb testing.TB, s string) time.Time {
	tb.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		tb.Fatal(err)
	}
	return at
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, schedule, zone string
		after, want          string
		fails                bool
	}{
		{name: "minutes", schedule: "*/15 * * * *", after: "2026-05-01T12:01:00Z", want: "2026-05-01T12:15:00Z"},
		{name: "name", schedule: "@daily", after: "2026-05-01T12:01:00Z", want: "2026-05-02T00:00:00Z"},
		{name: "zone", schedule: "30 7 * * *", zone: "America/New_York", after: "2026-05-01T00:00:00Z", want: "2026-05-01T11:30:00Z"},
		{name: "zone in the schedule", schedule: "TZ=Asia/Tokyo 30 7 * * *", after: "2026-05-01T00:00:00Z", want: "2026-05-01T22:30:00Z"},
		{name: "zone in the schedule comes first", schedule: "CRON_TZ=UTC 30 7 * * *", zone: "Asia/Tokyo", after: "2026-05-01T00:00:00Z", want: "2026-05-01T07:30:00Z"},
		{name: "unknown zone", schedule: "30 7 * * *", zone: "Moon/Copernicus", after: "2026-05-01T00:00:00Z", want: "2026-05-01T07:30:00Z"},
		{name: "too short", schedule: "* * *", fails: true},
		{name: "parser panics", schedule: "TZ=0", fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cj := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: tt.schedule}}
			if tt.zone != "" {
				cj.Spec.TimeZone = &tt.zone
			}
			schedule, err := Parse(cj)
			if (err != nil) != tt.fails {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if got := schedule.Next(utc(t, tt.after).UTC()).UTC(); !got.Equal(utc(t, tt.want)) {
				t.Errorf("the next start is at %v, want %v", got, tt.want)
			}
		})
	}
}

func TestDue(t *testing.T) {
	tests := []struct {
		name, schedule, created, last, now string
		deadline                           int64
		want                               string
		missed                             int64
		next                               time.Duration
		fails                              bool
	}{
		{name: "not yet", schedule: "0 * * * *", created: "2026-05-01T11:10:00Z", now: "2026-05-01T11:59:00Z", next: time.Minute},
		{name: "first", schedule: "0 * * * *", created: "2026-05-01T11:10:00Z", now: "2026-05-01T12:00:00Z", want: "2026-05-01T12:00:00Z", next: time.Hour},
		{name: "done", schedule: "0 * * * *", created: "2026-05-01T00:00:00Z", last: "2026-05-01T12:00:00Z", now: "2026-05-01T12:30:00Z", next: 30 * time.Minute},
		{
			name: "after a while", schedule: "0 * * * *", created: "2026-05-01T00:00:00Z", last: "2026-05-01T08:00:00Z", now: "2026-05-01T12:30:00Z",
			want: "2026-05-01T12:00:00Z", missed: 4, next: 30 * time.Minute,
		},
		{
			name: "after a year", schedule: "*/10 * * * *", created: "2025-05-01T00:00:00Z", now: "2026-05-01T00:05:00Z",
			want: "2026-05-01T00:00:00Z", missed: 365 * 144, next: 5 * time.Minute,
		},
		{
			name: "irregular", schedule: "30 6-16/4 * * 1-5", created: "2026-05-01T05:00:00Z", now: "2026-05-04T09:00:00Z",
			want: "2026-05-04T06:30:00Z", missed: 19, next: 90 * time.Minute,
		},
		{
			name: "interval", schedule: "@every 7m", created: "2026-05-01T12:00:00Z", now: "2026-05-01T12:30:00Z",
			want: "2026-05-01T12:28:00Z", missed: 4, next: 5 * time.Minute,
		},
		{
			name: "too late for the deadline", schedule: "0 * * * *", created: "2026-05-01T00:00:00Z", now: "2026-05-01T12:30:00Z", deadline: 600,
			next: 30 * time.Minute,
		},
		{
			name: "within the deadline", schedule: "0 * * * *", created: "2026-05-01T00:00:00Z", now: "2026-05-01T12:05:00Z", deadline: 600,
			want: "2026-05-01T12:00:00Z", next: 55 * time.Minute,
		},
		{name: "never", schedule: "59 23 31 2 *", created: "2026-05-01T00:00:00Z", now: "2026-05-01T12:00:00Z", fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cj := &batchv1.CronJob{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(utc(t, tt.created))},
				Spec:       batchv1.CronJobSpec{Schedule: tt.schedule},
			}
			if tt.last != "" {
				cj.Status.LastScheduleTime = new(metav1.NewTime(utc(t, tt.last)))
			}
			if tt.deadline > 0 {
				cj.Spec.StartingDeadlineSeconds = &tt.deadline
			}
			schedule, err := Parse(cj)
			if err != nil {
				t.Fatal(err)
			}
			now := utc(t, tt.now)
			got, err := due(cj, schedule, now, true)
			if (err != nil) != tt.fails {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			want := time.Time{}
			if tt.want != "" {
				want = utc(t, tt.want)
			}
			if !got.last.Equal(want) || got.missed != tt.missed {
				t.Errorf("due at %v after %d others, want %v after %d", got.last, got.missed, want, tt.missed)
			}
			if next := untilNext(cj, schedule, now); next != tt.next+lateness {
				t.Errorf("the next start is in %v, want %v", next, tt.next+lateness)
			}
		})
	}
}

// TestSchedule_ClockChange goes through the two nights of 2026 in which clocks are changed in Berlin: 2:00 to 3:00 on
// March 29, 3:00 to 2:00 on October 25.
func TestSchedule_ClockChange(t *testing.T) {
	tests := []struct {
		name, schedule, from, to string
		want                     []string
	}{
		{
			name: "daily, summer begins", schedule: "0 8 * * *", from: "2026-03-28T00:00:00Z", to: "2026-03-31T00:00:00Z",
			want: []string{"2026-03-28T07:00:00Z", "2026-03-29T06:00:00Z", "2026-03-30T06:00:00Z"},
		},
		{
			name: "daily, summer ends", schedule: "0 8 * * *", from: "2026-10-24T00:00:00Z", to: "2026-10-27T00:00:00Z",
			want: []string{"2026-10-24T06:00:00Z", "2026-10-25T07:00:00Z", "2026-10-26T07:00:00Z"},
		},
		{
			name: "an hour that does not exist is left out", schedule: "30 2 * * *", from: "2026-03-28T00:00:00Z", to: "2026-03-31T00:00:00Z",
			want: []string{"2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"},
		},
		{
			name: "hourly goes on", schedule: "0 * * * *", from: "2026-10-24T23:30:00Z", to: "2026-10-25T02:30:00Z",
			want: []string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cj := &batchv1.CronJob{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(utc(t, tt.from))},
				Spec:       batchv1.CronJobSpec{Schedule: tt.schedule, TimeZone: new("Europe/Berlin")},
			}
			schedule, err := Parse(cj)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for now := utc(t, tt.from); now.Before(utc(t, tt.to)); {
				now = now.Add(untilNext(cj, schedule, now))
				found, err := due(cj, schedule, now, true)
				if err != nil || found.last.IsZero() || found.missed > 0 {
					t.Fatalf("at %v found %+v, error %v", now, found, err)
				}
				cj.Status.LastScheduleTime = new(metav1.NewTime(found.last))
				if found.last.Before(utc(t, tt.to)) {
					got = append(got, found.last.UTC().Format(time.RFC3339))
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("starts are %v, want %v", got, tt.want)
			}
		})
	}
}
