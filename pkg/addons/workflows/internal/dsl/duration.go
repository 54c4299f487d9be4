// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dsl

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// Years and months have no length of their own in ISO 8601; here they are 365 and 30 days, as in other runtimes.
var (
	isoDuration = regexp.MustCompile(`^P(?:([\d.]+)Y)?(?:([\d.]+)M)?(?:([\d.]+)W)?(?:([\d.]+)D)?(?:T(?:([\d.]+)H)?(?:([\d.]+)M)?(?:([\d.]+)S)?)?$`)
	isoUnits    = []time.Duration{365 * day, 30 * day, 7 * day, day, time.Hour, time.Minute, time.Second}
	units       = map[string]time.Duration{
		"days": day, "hours": time.Hour, "minutes": time.Minute, "seconds": time.Second, "milliseconds": time.Millisecond,
	}
)

const day = 24 * time.Hour

// ParseDuration returns the length of an object with days to milliseconds, or of a text of ISO 8601, such as PT1M30S.
func ParseDuration(value any) (time.Duration, error) {
	total := 0.0
	switch value := value.(type) {
	case string:
		groups := isoDuration.FindStringSubmatch(value)
		if groups == nil || value[len(value)-1] == 'P' || value[len(value)-1] == 'T' {
			return 0, fmt.Errorf("%q is not a duration of ISO 8601, such as PT1M30S", value)
		}
		for i, unit := range isoUnits {
			if groups[i+1] == "" {
				continue
			}
			n, err := strconv.ParseFloat(groups[i+1], 64)
			if err != nil {
				return 0, fmt.Errorf("%q is not a duration of ISO 8601: %w", value, err)
			}
			total += n * float64(unit)
		}
	case map[string]any:
		if len(value) == 0 {
			return 0, fmt.Errorf("a duration needs one of days, hours, minutes, seconds, milliseconds")
		}
		for name, amount := range value {
			unit, known := units[name]
			n, ok := number(amount)
			if !known || !ok {
				return 0, fmt.Errorf("%s: %v is not of a duration, which is days, hours, minutes, seconds, milliseconds as numbers", name, amount)
			}
			total += n * float64(unit)
		}
	default:
		return 0, fmt.Errorf("%v is neither an object with days, hours, minutes, seconds, milliseconds nor a text of ISO 8601", value)
	}
	if total < 0 || total > float64(MaxDuration) {
		return 0, fmt.Errorf("a duration of %.0f seconds is out of range", total/float64(time.Second))
	}
	return time.Duration(math.Round(total)), nil
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
