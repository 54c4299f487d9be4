// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package machinetest

import (
	"testing"
	"time"
)

func TestClockSet(t *testing.T) {
	before := time.Now()
	for _, by := range []time.Duration{2 * time.Hour, -50 * time.Hour} {
		after := ClockSet(before.Add(time.Second), by)
		if measured := after.Sub(before); measured != time.Second {
			t.Errorf("set by %s: %s are measured, want 1s", by, measured)
		}
		if wall := after.Round(0).Sub(before.Round(0)); wall != by+time.Second {
			t.Errorf("set by %s: on the wall there are %s more", by, wall)
		}
	}
}
