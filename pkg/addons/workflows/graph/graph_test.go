// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
)

const head = "document: {dsl: '1.0.3', namespace: default, name: test, version: 1.0.0}\n"

func parse(t *testing.T, text string) *dsl.Workflow {
	t.Helper()
	w, problems := dsl.ParseText([]byte(head+text), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return w
}

func TestDraw(t *testing.T) {
	for _, tt := range []struct {
		name, document string
		texts          []string
		tasks, groups  int
		flows, jumps   int
	}{
		{name: "nothing", document: "do: []", flows: 2},
		{name: "in sequence", document: "do: [{a: {set: {x: 1}}}, {b: {wait: PT5S}}]", texts: []string{">a<", ">wait PT5S<"}, tasks: 2, flows: 3},
		{
			name: "a switch", tasks: 3, jumps: 3, flows: 3, texts: []string{">big<", ">small end<"},
			document: "do: [{s: {switch: [{big: {when: .n > 1, then: b}}, {small: {when: .n < 1, then: end}}]}}, {a: {set: {x: 1}, then: end}}, {b: {set: {x: 1}}}]",
		},
		{
			name: "branches", document: "do: [{f: {fork: {compete: true, branches: [{a: {set: {x: 1}}}, {b: {do: [{c: {set: {x: 1}}}]}}]}}}]",
			tasks: 2, groups: 2, flows: 2, texts: []string{"the first decides"},
		},
		{
			name: "try", document: "do: [{f: {try: [{a: {call: http, with: {method: get, endpoint: 'http://x'}}}], catch: {retry: {}, do: [{b: {set: {x: 1}}}]}}}]",
			tasks: 2, groups: 1, flows: 2, texts: []string{">try, retry<", ">call http<", ">catch<"},
		},
		{name: "what XML has for itself", document: "do: [{'<a>&': {if: '.x < 1', set: {x: 1}}}]", tasks: 1, flows: 2, texts: []string{"&lt;a&gt;&amp;", "set if .x &lt; 1"}},
		{name: "an error", document: "do: [{a: {raise: {error: {type: 'http://x', status: 400}}}}, {b: {set: {x: 1}}}]", tasks: 2, flows: 2},
		{name: "the last task ends", document: "do: [{a: {set: {x: 1}, then: end}}]", tasks: 1, flows: 1, jumps: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			svg := Draw(parse(t, tt.document))
			for _, text := range tt.texts {
				if !strings.Contains(svg, text) {
					t.Errorf("there is no %q", text)
				}
			}
			for class, want := range map[string]int{"task": tt.tasks, "group": tt.groups, "flow": tt.flows, "jump": tt.jumps} {
				if got := strings.Count(svg, `class="`+class+`"`); got != want {
					t.Errorf("%d of class %s, want %d", got, class, want)
				}
			}
			decoder := xml.NewDecoder(strings.NewReader(svg))
			for {
				if _, err := decoder.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("not XML: %v\n%s", err, svg)
				}
			}
		})
	}
}

// Boxes of tasks do not overlap, and are inside the drawing.
func TestLayout(t *testing.T) {
	w := parse(t, `
do:
- a: {set: {x: 1}}
- f: {fork: {branches: [{b: {set: {x: 1}}}, {c: {do: [{d: {set: {x: 1}}}, {e: {wait: PT1S}}]}}, {g: {set: {x: 1}}}]}}
- h: {try: [{i: {set: {x: 1}}}], catch: {do: [{j: {set: {x: 1}}}, {k: {set: {x: 1}, then: exit}}]}}
`)
	f := painter{w}.list("/do", "")
	var boxes []*element
	for _, e := range f.elements {
		if e.class == "task" {
			boxes = append(boxes, e)
		}
	}
	for i, a := range boxes {
		if a.at.x < 0 || a.at.y < 0 || a.at.x+a.w > f.w || a.at.y+a.h > f.h {
			t.Errorf("box %d is outside: %+v in %v x %v", i, *a, f.w, f.h)
		}
		for _, b := range boxes[:i] {
			if a.at.x < b.at.x+b.w && b.at.x < a.at.x+a.w && a.at.y < b.at.y+b.h && b.at.y < a.at.y+a.h {
				t.Errorf("boxes overlap: %+v and %+v", *a, *b)
			}
		}
	}
	if len(boxes) != 8 {
		t.Errorf("%d boxes", len(boxes))
	}
}

func TestSVG(t *testing.T) {
	if _, err := SVG([]byte(`{"do": []}`)); err == nil || !strings.Contains(err.Error(), "spec.document") {
		t.Errorf("error %v", err)
	}
}

func TestExample(t *testing.T) {
	content, err := os.ReadFile("../../../../examples/workflow/order.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var w struct{ Spec json.RawMessage }
	if err := yaml.Unmarshal(content, &w); err != nil {
		t.Fatal(err)
	}
	if _, err := SVG(w.Spec); err != nil {
		t.Fatal(err)
	}
}
