// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package machinetest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// ending is a test that notes how it ends.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper() {}

func (e *ending) Skipf(format string, args ...any) { e.end("skipped", format, args) }

func (e *ending) Fatalf(format string, args ...any) { e.end("failed", format, args) }

func (e *ending) end(how, format string, args []any) {
	e.how = how + ": " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// of runs f as a test and returns how it ended.
func of(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	e := &ending{TB: t, how: "passed"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(e)
	}()
	<-done
	return e.how
}

func TestLacks(t *testing.T) {
	tests := []struct {
		name, all string
		f         func(testing.TB)
		want      string
	}{
		{"nothing", "1", func(tb testing.TB) { tb.Helper(); Programs(tb, "sh", "true") }, "passed"},
		{"a program, for a developer", "", func(tb testing.TB) { tb.Helper(); Programs(tb, "sh", "no-such-program") }, "skipped: needs no-such-program: "},
		{"a program, for CI", "1", func(tb testing.TB) { tb.Helper(); Programs(tb, "no-such-program") }, "failed: needs no-such-program: "},
		{"something else, for a developer", "0", func(tb testing.TB) { tb.Helper(); Lacks(tb, "no %s", "mounts") }, "skipped: no mounts"},
		{"something else, for CI", "1", func(tb testing.TB) { tb.Helper(); Lacks(tb, "no %s", "mounts") }, "failed: no mounts"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(All, test.all)
			if got := of(t, test.f); !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
