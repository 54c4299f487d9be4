// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestRow(t *testing.T) {
	for name, tc := range map[string]struct {
		figure figure
		want   string
	}{
		"met":      {figure: figure{name: "a", unit: "s", atMost: 0.7, values: [2][]float64{{2, 10, 4}, {2}}}, want: "a\ts\t4.0\t2.0\t0.50\tat most 0.70"},
		"missed":   {figure: figure{name: "a", unit: "s", atMost: 0.4, values: [2][]float64{{4}, {1, 3}}}, want: "a\ts\t4.0\t2.0\t0.50\tat most 0.40: missed"},
		"cut off":  {figure: figure{name: "a", unit: "s", atMost: 0.4, values: [2][]float64{{4}, nil}}, want: "a\ts\t4.0\t\t\tnot measured"},
		"too long": {figure: figure{name: "a", unit: "s", within: time.Second, values: [2][]float64{nil, {2}}}, want: "a\ts\t0.0\t2.0\t0.00\t, 1 s: missed"},
	} {
		if got := tc.figure.row(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
