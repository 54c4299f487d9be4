// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"testing"
)

func TestFigure(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		figure figure
		want   string
	}{
		{"small enough", figure{AtMost: 0.5, Values: [2][]float64{{10, 30, 20}, {9, 1000, 10}}}, "at most 0.50"},
		{"too much", figure{AtMost: 0.4, Values: [2][]float64{{20}, {10}}}, "at most 0.40: missed"},
		{"too little", figure{AtLeast: 1, Values: [2][]float64{{20, 40}, {10}}}, "at least 1.00: missed"},
		{"enough", figure{AtLeast: 1, Values: [2][]float64{{20}, {20}}}, "at least 1.00"},
		{"nothing wanted", figure{Values: [2][]float64{{0}, {20}}}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.figure.conclude()
			if got := test.figure.wanted(); got != test.want {
				t.Errorf("got %q, want %q of %+v", got, test.want, test.figure)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("%v: got %v, want %v", q, got, want)
		}
	}
}

// The figure per definition means something only if they are of a usual size.
func TestDefinition(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(definition(7))
	if err != nil {
		t.Fatal(err)
	}
	if len(data) < 4<<10 || len(data) > 16<<10 {
		t.Errorf("a definition has %d bytes, want some thousands", len(data))
	}
}

func TestUsageOf(t *testing.T) {
	t.Parallel()
	if got, err := usageOf(os.Getpid()); err != nil || got.anonymous == 0 || got.resident <= got.anonymous {
		t.Errorf("of this process: %+v, %v", got, err)
	}
}
