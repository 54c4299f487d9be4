// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package capped

import "testing"

func TestBuffer(t *testing.T) {
	t.Parallel()
	b := &Buffer{Max: 5}
	for _, text := range []string{"abc", "", "defg", "h"} {
		if n, err := b.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("Write(%q) = %d, %v", text, n, err)
		}
	}
	if got := b.String(); got != "abcde" {
		t.Errorf("kept %q, want the first 5 bytes", got)
	}
}
