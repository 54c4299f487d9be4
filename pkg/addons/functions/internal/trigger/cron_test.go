// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"testing"
	"time"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name  string
		t     v1alpha1.CronTrigger
		want  time.Time
		valid bool
	}{
		{"each five minutes", v1alpha1.CronTrigger{Schedule: "*/5 * * * *"}, from.Add(5 * time.Minute), true},
		{"each 30 s", v1alpha1.CronTrigger{Schedule: "@every 30s"}, from.Add(30 * time.Second), true},
		{"in a zone", v1alpha1.CronTrigger{Schedule: "0 14 * * *", TimeZone: "Europe/Berlin"}, from.Add(time.Hour), true},
		{"no schedule", v1alpha1.CronTrigger{Schedule: "now and then"}, from, false},
		{"no zone", v1alpha1.CronTrigger{Schedule: "* * * * *", TimeZone: "Atlantis"}, from, false},
		{"a zone in the schedule", v1alpha1.CronTrigger{Schedule: "TZ=UTC * * * * *"}, from, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, err := Schedule(&test.t)
			if (err == nil) != test.valid {
				t.Fatal(err)
			}
			if err == nil && !s.Next(from).Equal(test.want) {
				t.Errorf("got %s, want %s", s.Next(from), test.want)
			}
		})
	}
}
