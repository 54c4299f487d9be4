// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package portallocator

import "testing"

func TestReserved(t *testing.T) {
	for size, want := range map[int]uint64{1: 0, 16: 0, 100: 16, 2768: 86, 10000: 128} {
		if got := reserved(size); got != want {
			t.Errorf("of %d ports %d are reserved, want %d", size, got, want)
		}
	}
}
