// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLimitsAdmits(t *testing.T) {
	t.Parallel()
	l := limits{quota: 800}
	for _, tc := range []struct {
		name          string
		inUse, growth int64
		want          bool
	}{
		{"something new", 700, created, false},
		{"a change", 700, 0, true},
		{"a condition more", 799, slack, true},
		{"data more", 700, slack + 1, false},
		{"a finalizer less", 799, -20, true},
		{"a change, with the reserve used up", 800, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := l.admits(tc.inUse, tc.growth); got != tc.want {
				t.Errorf("admits(%d, %d) = %v, want %v", tc.inUse, tc.growth, got, tc.want)
			}
		})
	}
}

func TestMemoryNext(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	l := limits{quota: 1024 * mib, worthwhile: defaultWorthwhile, rest: defaultRest} // full at 896, no longer at 864, pressed at 768
	at := time.Unix(1_000_000, 0)
	plenty := int64(100 << 30)
	for _, tc := range []struct {
		name     string
		before   memory
		o        observation
		wantFull bool
		want     plan
	}{
		{"room", memory{revision: 9}, observation{file: 700 * mib, inUse: 700 * mib, revision: 10, compacted: 1}, false, plan{}},
		{"pressed", memory{revision: 9}, observation{file: 800 * mib, inUse: 800 * mib, revision: 10, compacted: 1}, false, plan{compact: 9}},
		{
			"pressed, freed just now", memory{revision: 9, compacted: at.Add(-patience / 2)},
			observation{file: 800 * mib, inUse: 800 * mib, revision: 10, compacted: 1}, false, plan{},
		},
		{
			"nearly full", memory{revision: 9, compacted: at.Add(-time.Second)},
			observation{file: 880 * mib, inUse: 880 * mib, revision: 10, compacted: 1}, false, plan{compact: 9},
		},
		{"full", memory{revision: 9}, observation{file: 900 * mib, inUse: 900 * mib, revision: 10, compacted: 1}, true, plan{compact: 9}},
		{
			"full, nothing old left", memory{revision: 9, full: true},
			observation{file: 900 * mib, inUse: 900 * mib, revision: 9, compacted: 9}, true, plan{},
		},
		{
			"full, and a compaction takes long", memory{revision: 9, full: true, compacted: at.Add(-9 * time.Second), took: time.Second},
			observation{file: 900 * mib, inUse: 900 * mib, revision: 10, compacted: 1}, true, plan{},
		},
		{
			"full to the brim, and a compaction takes long", memory{revision: 9, full: true, compacted: at.Add(-time.Second), took: time.Second},
			observation{file: 1024 * mib, inUse: 1024 * mib, revision: 10, compacted: 1}, true, plan{compact: 9},
		},
		{"still full", memory{revision: 9, full: true}, observation{file: 900 * mib, inUse: 870 * mib, revision: 10, compacted: 9}, true, plan{}},
		{"was never full", memory{revision: 9}, observation{file: 900 * mib, inUse: 870 * mib, revision: 10, compacted: 9}, false, plan{}},
		{"room again", memory{revision: 9, full: true}, observation{file: 900 * mib, inUse: 860 * mib, revision: 10, compacted: 9}, false, plan{}},
		{"much is free and little to copy", memory{}, observation{file: 900 * mib, inUse: 20 * mib}, false, plan{defragment: true}},
		{"much is free and much to copy", memory{}, observation{file: 900 * mib, inUse: 200 * mib}, false, plan{}},
		{"the same on a disk that is short", memory{}, observation{file: 900 * mib, inUse: 200 * mib, disk: 900 * mib}, false, plan{defragment: true}},
		{"and with no space for the copy", memory{}, observation{file: 900 * mib, inUse: 200 * mib, disk: 200 * mib}, false, plan{}},
		{"more to copy than to gain", memory{}, observation{file: 900 * mib, inUse: 500 * mib, disk: 900 * mib}, false, plan{}},
		{"little is free", memory{}, observation{file: 120 * mib, inUse: mib}, false, plan{}},
		{"tried before", memory{defragmented: at.Add(-time.Minute)}, observation{file: 900 * mib, inUse: mib}, false, plan{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.o.at = at
			if tc.o.disk == 0 {
				tc.o.disk = plenty
			}
			after, got := tc.before.next(l, tc.o)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(plan{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if after.full != tc.wantFull || after.revision != tc.o.revision {
				t.Errorf("remembers %+v, want full %v and revision %d", after, tc.wantFull, tc.o.revision)
			}
			if got.defragment != (after.defragmented.Equal(at)) {
				t.Errorf("defragments %v and remembers %v", got.defragment, after.defragmented)
			}
		})
	}
}
