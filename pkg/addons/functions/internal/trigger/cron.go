// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package trigger says when functions are called without somebody asking, at times and at changes of objects, and who may call them by a
// webhook. Touch it to add another kind of trigger.
package trigger

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	v1alpha1 "minik8s.io/minik8s/pkg/addons/apis/functions/v1alpha1"
)

// Schedule reads the times of a trigger.
func Schedule(t *v1alpha1.CronTrigger) (cron.Schedule, error) {
	if strings.HasPrefix(t.Schedule, "TZ=") || strings.HasPrefix(t.Schedule, "CRON_TZ=") {
		return nil, fmt.Errorf("schedule %q: name the time zone in timeZone", t.Schedule)
	}
	zone := t.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == "Local" {
		return nil, fmt.Errorf("timeZone %q is none of the tz database", t.TimeZone)
	}
	text := t.Schedule
	if !strings.HasPrefix(text, "@every") {
		text = "TZ=" + zone + " " + text
	}
	s, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", t.Schedule, err)
	}
	return s, nil
}
