// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestWhole(t *testing.T) {
	t.Parallel()
	broken, interrupted := errors.New("broken"), fmt.Errorf("listing: %w", netlink.ErrDumpInterrupted)
	tests := []struct {
		name    string
		answers []error
		want    []int
		wantErr error
	}{
		{"at once", []error{nil}, []int{0, 1}, nil},
		{"interrupted", []error{interrupted, interrupted, nil}, []int{0, 1, 2, 3}, nil},
		{"interrupted for ever", slices.Repeat([]error{interrupted}, Attempts), nil, netlink.ErrDumpInterrupted},
		{"fails", []error{broken}, []int{0, 1}, broken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			part, answers := []int{0}, tt.answers
			got, err := Whole(func() ([]int, error) {
				next := answers[0]
				answers, part = answers[1:], append(part, len(part))
				return part, next
			})
			if !slices.Equal(got, tt.want) || !errors.Is(err, tt.wantErr) || len(answers) != 0 {
				t.Errorf("got %v, %v, %d answers are left, want %v, %v", got, err, len(answers), tt.want, tt.wantErr)
			}
		})
	}
}
