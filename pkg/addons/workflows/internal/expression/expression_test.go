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
		{name: "operators", value: `${ [1 + 2, 3 * 4, "a" + "b", "ab" * 2, {a: 1} + {b: 2}, ({a: {b: 1}} * {a: {c: 2}}), ([1] + [2]), null + 1, (1, 2) + (10, 20)] }`,
			want: []any{3, 12, "ab", "abab", map[string]any{"a": 1, "b": 2}, map[string]any{"a": map[string]any{"b": 1, "c": 2}}, []any{1, 2}, 1, 11, 12, 21, 22}},
		{name: "updates", value: `${ .n += 1 | .list[] *= .n | .name += "!" | .list |= . + [.[0] + 1] }`, want: map[string]any{"n": 3, "name": "Ada!", "list": []any{3, 6, 4}}},
		{name: "texts", value: `${ "<\(.name)>\(.list)" + @base64 "\(.name)" + ({"a\(.n)": 1} | tojson) + ([1, "a"] | join("-")) + @html "\("<")" }`,
			want: `<Ada>[1,2]QWRh{"a2":1}1-a&lt;`},
		{name: "sums", value: "${ [([1, 2] | add), add(.list[]), ([[1], [[2]]] | flatten, flatten(1))] }", want: []any{3, 3, []any{1, 2}, []any{1, []any{2}}}},
		{name: "functions of one's own", value: `${ def add(f): "mine"; def tojson: add(.); [add(1), tojson] }`, want: []any{"mine", "mine"}},
		{name: "a text times a number", value: `${ "x" * 1000000000 | length }`, wantErr: "more than"},
		{name: "a number times a text", value: `${ 1000000000 * "x" | length }`, wantErr: "more than"},
		{name: "a text that doubles", value: `${ reduce range(40) as $i ("x"; . + .) | length }`, wantErr: "more than"},
		{name: "a text that doubles inside", value: `${ reduce range(40) as $i ("x"; "\(.)\(.)") | length }`, wantErr: "more than"},
		{name: "a text that doubles in a key", value: `${ reduce range(40) as $i ("x"; {"\(.)\(.)": 1} | keys[0]) | length }`, wantErr: "more than"},
		{name: "a text that doubles by an update", value: `${ reduce range(40) as $i ({a: "x"}; .a += .a) | length }`, wantErr: "more than"},
		{name: "a list that doubles", value: `${ reduce range(40) as $i ([1]; . + .) | length }`, wantErr: "more than"},
		{name: "lists of lists, written", value: `${ reduce range(40) as $i ("x"; [., .]) | tojson | length }`, wantErr: "more than"},
		{name: "lists of lists, as they are", value: `${ reduce range(40) as $i ("x"; [., .]) }`, wantErr: "more than"},
		{name: "lists added", value: `${ reduce range(40) as $i ("x"; [., .] | add) | length }`, wantErr: "more than"},
		{name: "values added", value: `${ reduce range(40) as $i ("x"; add(., .)) | length }`, wantErr: "more than"},
		{name: "lists joined", value: `${ [range(10000)] | join("x" * 100000) | length }`, wantErr: "more than"},
		{name: "numbers that grow", value: `${ reduce range(60) as $i (10; . * .) | . > 0 }`, wantErr: "more than"},
		{name: "objects that grow", value: `${ (reduce range(40) as $i (1; {a: ., b: .})) as $x | $x * $x | length }`, wantErr: "more than"},
		{name: "much in all", value: map[string]any{"a": `${ "x" * 10000000 }`, "b": `${ "x" * 10000000 }`}, wantErr: "more than"},
		{name: "much in a text", value: `${ "x" * 10000000 } ${ "x" * 10000000 }`, wantErr: "more than"},
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
