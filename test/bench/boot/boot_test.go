// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		sorted []time.Duration
		want   time.Duration
	}{
		{"one", []time.Duration{3}, 3},
		{"odd", []time.Duration{1, 2, 9}, 2},
		{"even", []time.Duration{1, 2, 4, 9}, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := median(test.sorted); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 15 16 17 18 19 20 100 22 23"
	want := usage{processor: 2 * time.Second, resident: 100 * int64(os.Getpagesize())}
	for name, stat := range map[string]string{"plain": "1 (a)" + rest, "parentheses in the name": "1 (a) (b c)" + rest} {
		if got, err := parseStat(stat); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	if _, err := parseStat("1 (a) S 1"); err == nil {
		t.Error("a short line is taken")
	}
	if got, err := usageOf(os.Getpid()); err != nil || got.resident == 0 {
		t.Errorf("of this process: %+v, %v", got, err)
	}
}
