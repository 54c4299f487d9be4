// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package image

import "testing"

func TestExcess(t *testing.T) {
	for _, tc := range []struct {
		name                string
		available, capacity int64
		high, low           int32
		want                int64
	}{
		{"below", 160, 1000, 85, 80, 0},
		{"at the threshold", 150, 1000, 85, 80, 50},
		{"full", 0, 1000, 85, 80, 200},
		{"nothing known", 0, 0, 85, 80, 0},
		{"more available than there is", 2000, 1000, 85, 80, 0},
		{"always", 1000, 1000, 0, 0, 0},
	} {
		if got := excess(tc.available, tc.capacity, tc.high, tc.low); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}
