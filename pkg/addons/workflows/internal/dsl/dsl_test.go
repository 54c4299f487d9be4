// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dsl

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const head = "document: {dsl: '1.0.3', namespace: default, name: test, version: 1.0.0}\n"

func TestParseProblems(t *testing.T) {
	for _, tt := range []struct {
		name, document string
		want           []string // the begin of each problem
	}{
		{name: "valid", document: head + "do: [{a: {set: {x: 1}}}]"},
		{name: "empty", document: "{}", want: []string{"document: Required", "do: Required"}},
		{name: "not an object", document: "[]", want: []string{"<nil>: Invalid value"}},
		{name: "two documents", document: "a: 1\na: 2", want: []string{"<nil>: Invalid value: neither YAML nor JSON"}},
		{name: "another version", document: strings.Replace(head, "1.0.3", "0.8", 1) + "do: []", want: []string{"document.dsl: Invalid"}},
		{name: "a task without name", document: head + "do: [{set: {x: 1}, then: end}]", want: []string{"do[0]: Invalid value: must be an object with one"}},
		{name: "two tasks in one item", document: head + "do: [{a: {set: {x: 1}}, b: {set: {x: 1}}}]", want: []string{"do[0]: Invalid"}},
		{name: "no kind", document: head + "do: [{a: {}}]", want: []string{"do[0].a: Required value: a task has one of"}},
		{name: "a property too many", document: head + "do: [{a: {set: {x: 1}, wit: 1}}]", want: []string{"do[0].a.wit: Unsupported value"}},
		{name: "names twice", document: head + "do: [{a: {set: {x: 1}}}, {a: {set: {x: 1}}}]", want: []string{`do[1]: Duplicate value: "a"`}},
		{
			name: "jq", document: head + "do: [{a: {if: '.a +', set: {x: '${ { }'}}}]",
			want: []string{"do[0].a.set.x: Invalid", "do[0].a.if: Invalid"},
		},
		{
			name: "another scope", document: head + "do: [{a: {do: [{b: {set: {x: 1}, then: c}}]}}, {c: {set: {x: 1}}}]",
			want: []string{`do[0].a.do[0].b.then: Unsupported value: "c"`},
		},
		{name: "a case without then", document: head + "do: [{a: {switch: [{x: {when: .a}}]}}]", want: []string{"do[0].a.switch[0].x.then: Required"}},
		{
			name:     "names that are not there",
			document: head + "do: [{a: {try: [], catch: {retry: r}, timeout: t}}, {b: {raise: {error: e}}}, {c: {call: http, with: {method: get, endpoint: {uri: 'http://a', authentication: {use: x}}}}}]",
			want:     []string{"do[0].a.catch.retry: Not found", "do[0].a.timeout: Not found", "do[1].b.raise.error: Not found", "do[2].c.with.endpoint.authentication: Not found"},
		},
		{name: "http without method", document: head + "do: [{a: {call: http, with: {endpoint: 'http://a'}}}]", want: []string{"do[0].a.with.method: Required"}},
		{name: "a property too many in a call", document: head + "do: [{a: {call: http, with: {method: get, endpoint: 'http://a', foo: 1}}}]", want: []string{"do[0].a.with.foo: Unsupported"}},
		{name: "any until any until", document: head + "do: [{a: {listen: {to: {any: [], until: {any: [{with: {}}]}}}}}]", want: []string{"do[0].a.listen.to.until.any[0].with: Invalid"}},
		{name: "not supported", document: head + "do: [{a: {run: {shell: {command: ls}}}}]", want: []string{"do[0].a.run.shell: Invalid value: not supported"}},
		{name: "a duration", document: head + "do: [{a: {wait: {weeks: 1}}}, {b: {wait: P}}, {c: {wait: '${ .x }'}}]", want: []string{"do[0].a.wait: Invalid", `do[1].b.wait: Invalid value: "P"`}},
		{name: "a schema", document: head + "input: {schema: {document: {type: 7}}}\ndo: []", want: []string{"input.schema.document: Invalid"}},
		{name: "branches", document: head + "do: [{a: {fork: {branches: [{b: {set: {x: 1}, then: c}}, {c: {set: {x: 1}}}]}}}]", want: []string{"do[0].a.fork.branches[0].b.then: Invalid"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, problems := ParseText([]byte(tt.document), nil)
			if (w != nil) != (len(tt.want) == 0) {
				t.Errorf("workflow %v", w)
			}
			if len(problems) != len(tt.want) {
				t.Fatalf("problems %v, want %d", problems, len(tt.want))
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(problems[i].Error(), want) {
					t.Errorf("problem %q, want %q", problems[i], want)
				}
			}
		})
	}
}

func TestReferences(t *testing.T) {
	w, problems := ParseText([]byte(head+`
use: {functions: {f/1: {set: {x: 1}}}}
do:
- try: {try: [{a: {for: {in: .x}, do: [{b: {set: {x: 1}}}]}}], catch: {do: [{c: {set: {x: 1}}}]}}
- fork: {fork: {branches: [{d: {do: [{e: {set: {x: 1}}}]}}]}}
`), nil)
	if problems != nil {
		t.Fatal(problems)
	}
	for _, reference := range []string{
		"/use/functions/f~11", "/do/0/try/try/0/a/do/0/b", "/do/0/try/catch/do/0/c", "/do/1/fork/fork/branches/0/d/do/0/e",
	} {
		if w.Tasks[reference] == nil {
			t.Errorf("there is no task %s", reference)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  time.Duration
		bad   bool
	}{
		{value: "PT1M30S", want: 90 * time.Second},
		{value: "P1DT0.5H", want: 24*time.Hour + 30*time.Minute},
		{value: map[string]any{"seconds": 1, "milliseconds": 250}, want: 1250 * time.Millisecond},
		{value: "P", bad: true}, {value: "PT", bad: true}, {value: "1s", bad: true}, {value: "P1..2D", bad: true}, {value: 3, bad: true},
		{value: map[string]any{}, bad: true}, {value: map[string]any{"seconds": "1"}, bad: true},
		{value: map[string]any{"seconds": -1}, bad: true}, {value: "P9999999999Y", bad: true},
	} {
		got, err := ParseDuration(tt.value)
		if (err != nil) != tt.bad || got != tt.want {
			t.Errorf("%v: %v, %v, want %v", tt.value, got, err, tt.want)
		}
	}
}

func TestNormalize(t *testing.T) {
	got, err := Decode([]byte(`{"a": 1, "b": 1.5, "c": [9007199254740993]}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"a": 1, "b": 1.5, "c": []any{9007199254740993}}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Decode([]byte(`{} {}`)); err == nil {
		t.Error("two values were taken for one")
	}
}
