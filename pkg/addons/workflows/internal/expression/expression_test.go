// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValue(t *testing.T) {
	on := map[string]any{"n": 2, "name": "Ada", "list": []any{1, 2}}
	for _, tt := range []struct {
		name    string
		value   any
		loose   bool
		want    any
		wantErr string
	}{
		{name: "a string is itself", value: "n", want: "n"},
		{name: "a whole expression keeps its type", value: " ${ .n } ", want: 2},
		{name: "expressions in a text", value: "Hello ${ .name }: ${.n}${ .list }!", want: "Hello Ada: 2[1,2]!"},
		{name: "braces in strings and objects", value: `${ {a: "}", b: "\(.n)}"} }`, want: map[string]any{"a": "}", "b": "2}"}},
		{name: "in lists and objects", value: map[string]any{"a": []any{"${ .n + $x }"}}, want: map[string]any{"a": []any{7}}},
		{name: "loose", value: ".n + 1", loose: true, want: 3},
		{name: "loose, but no expression", value: "a b c", loose: true, want: "a b c"},
		{name: "nothing is null", value: "${ empty }", want: nil},
		{name: "several", value: "${ .list[] }", wantErr: "more than one value"},
		{name: "not closed", value: "a ${ .n", wantErr: "no } for a ${"},
		{name: "syntax", value: "${ .n + }", wantErr: "is not jq"},
		{name: "unknown variable", value: "${ $y }", wantErr: "$y"},
		{name: "type error", value: "${ .name + 1 }", wantErr: "cannot add"},
		{name: "for ever", value: "${ last(repeat(1)) }", wantErr: "takes longer than"},
		{name: "no environment", value: "${ env | length }", want: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &Evaluator{Loose: tt.loose}
			got, err := e.Value(t.Context(), tt.value, on, Vars{"x": 5})
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Fatalf("error %v, want %q", err, tt.wantErr)
			}
			if diff := cmp.Diff(tt.want, got); err == nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}
