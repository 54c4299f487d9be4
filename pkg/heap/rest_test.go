// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"runtime"
	"testing"
)

func TestReturnable(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		before, now heap
		least       uint64
		want        bool
	}{
		"after a burst":  {heap{allocated: 1000 * mib}, heap{allocated: 1001 * mib, held: 400 * mib}, 200 * mib, true},
		"in a burst":     {heap{allocated: 1000 * mib}, heap{allocated: 1100 * mib, held: 400 * mib}, 200 * mib, false},
		"given back":     {heap{allocated: 1000 * mib}, heap{allocated: 1001 * mib, held: 220 * mib}, 200 * mib, false},
		"little":         {heap{}, heap{held: 22 * mib}, 15 * mib, false},
		"little, half":   {heap{}, heap{held: 30 * mib}, 15 * mib, true},
		"fell by itself": {heap{}, heap{held: 100 * mib}, 200 * mib, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.now.returnable(tc.before, tc.least); got != tc.want {
				t.Errorf("returnable = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestLook(t *testing.T) {
	before := look()
	block := make([]byte, 64<<20)
	now := look()
	if grown := now.allocated - before.allocated; grown < 64<<20 || now.held < 64<<20 {
		t.Errorf("64 MiB were allocated, the heap shows %d more of %d", grown, now.held)
	}
	runtime.KeepAlive(block)
}
