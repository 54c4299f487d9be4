// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package jobspec

import "testing"

func TestCountIndexes(t *testing.T) {
	for _, tc := range []struct {
		list string
		want int32 // -1: an error
	}{
		{"", 0},
		{"0", 1},
		{"0,2-4,9", 5},
		{"10", -1},
		{"8-10", -1},
		{"3,3", -1},
		{"3-3", -1},
		{"4-2", -1},
		{"0-2,2", -1},
		{"1-2-3", -1},
		{"-1", -1},
		{"1,", -1},
		{"a", -1},
	} {
		got, err := CountIndexes(tc.list, 10)
		if tc.want < 0 && err == nil {
			t.Errorf("%q holds %d, want an error", tc.list, got)
		}
		if tc.want >= 0 && (err != nil || got != tc.want) {
			t.Errorf("%q holds %d, %v, want %d", tc.list, got, err, tc.want)
		}
	}
}

func TestValidateDisjoint(t *testing.T) {
	for _, tc := range []struct {
		completed, failed string
		disjoint          bool
	}{
		{"", "", true},
		{"1", "", true},
		{"0-3", "4-9", true},
		{"1,3,5", "0,2,4", true},
		{"4-9", "0-3", true},
		{"0-3", "3", false},
		{"0,5-7", "2,6", false},
		{"x,5", "5", false},
		{"x", "5", true},
	} {
		if err := ValidateDisjoint(tc.completed, tc.failed, 10); (err == nil) != tc.disjoint {
			t.Errorf("%q and %q: %v, want disjoint %t", tc.completed, tc.failed, err, tc.disjoint)
		}
	}
}
