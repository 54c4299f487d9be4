// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
)

const head = "document: {dsl: '1.0.3', namespace: default, name: test, version: 1.0.0}\n"

// world is what runs of a test see: a clock that goes when nothing else does, and answers to calls.
type world struct {
	t      *testing.T
	doc    *dsl.Workflow
	facts  Facts
	answer func(Action) Result
	// batch and reload: how many steps a turn has, and whether the state goes through JSON after each.
	reload bool
	keys   []string
	log    []Entry
}

func newWorld(t *testing.T, document, input string) *world {
	t.Helper()
	doc, problems := dsl.ParseText([]byte(head+document), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	in, err := dsl.Decode([]byte(input))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &world{t: t, doc: doc, facts: Facts{Now: now, Input: in, MaxSteps: 1000, MaxBytes: 64 << 10, Batch: 100}, answer: func(a Action) Result {
		return Result{Output: a.Arguments}
	}}
}

// run takes a run to its end, or to where only events help.
func (w *world) run() *State {
	w.t.Helper()
	s := Begin(w.t.Context(), w.doc, "id", w.facts)
	for range 5000 {
		if s.End != nil {
			return s
		}
		turn := Advance(w.t.Context(), w.doc, s, w.facts)
		w.log = append(w.log, turn.Log...)
		if w.reload {
			text, err := json.Marshal(s)
			if err != nil {
				w.t.Fatal(err)
			}
			if s, err = Load(text); err != nil {
				w.t.Fatal(err)
			}
		}
		switch {
		case turn.Again || s.End != nil:
		case len(turn.Actions) > 0:
			// One action at a time: the others are asked for again.
			a := turn.Actions[0]
			w.keys = append(w.keys, a.Key)
			if !s.Resolve(a.Seq, w.answer(a)) {
				w.t.Fatalf("nobody waits for %s", a.Reference)
			}
		case !turn.Wake.IsZero():
			w.facts.Now = turn.Wake
		case turn.Listening:
			return s
		default:
			w.t.Fatal("the run waits for nothing")
		}
	}
	w.t.Fatal("the run has no end")
	return nil
}

func names(log []Entry) string {
	var out []string
	for _, e := range log {
		name := e.Reference[strings.LastIndexByte(e.Reference, '/')+1:]
		if e.Outcome != Completed {
			name += ":" + e.Outcome
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name, document, input string
		answer                func(Action) Result
		want                  string // JSON of the output
		wantErr               string // a part of the error
		wantLog               string
		events                string
	}{
		{name: "set", document: "do: [{a: {set: {x: '${ .n + 1 }'}}}]", input: `{"n": 1}`, want: `{"x": 2}`, wantLog: "a"},
		{
			name: "data flow", input: `{"o": {"n": 3}}`,
			document: `
input: {from: .o}
output: {as: '{out: ., c: $context}'}
do:
- a: {input: {from: '.n'}, set: {v: '${ . }', i: '${ $input }', w: '${ $workflow.input.o.n }'}, output: {as: .v * 2}, export: {as: '{a: $output, t: $task.output.v}'}}
- b: {set: {r: '${ $context.a }', name: '${ $task.name }', ref: '${ $task.reference }'}}`,
			want: `{"out": {"r": 6, "name": "b", "ref": "/do/1/b"}, "c": {"a": 6, "t": 3}}`,
		},
		{name: "the context is the input first", document: "do: [{a: {set: {x: 1}}}, {b: {set: {x: '${ $context }'}}}]", input: `7`, want: `{"x": 7}`},
		{name: "if", document: "do: [{a: {if: .no, set: {x: 1}, then: end}}, {b: {set: {z: '${ . }'}}}]", input: `{"n": 1}`, want: `{"z": {"n": 1}}`, wantLog: "a:Skipped b"},
		{
			name: "directives", input: `null`,
			document: `
do:
- a: {set: {v: ['a']}, then: c}
- b: {set: {v: '${ .v + ["b"] }'}, then: end}
- c: {do: [{d: {set: {v: '${ .v + ["d"] }'}, then: exit}}, {e: {set: {v: never}}}]}
- f: {set: {v: '${ .v + ["f"] }'}, then: b}`,
			want: `{"v": ["a", "d", "f", "b"]}`, wantLog: "a d c f b",
		},
		{name: "end in a nested list", document: "do: [{a: {do: [{b: {set: {x: 1}, then: end}}]}}, {c: {set: {x: 2}}}]", input: `null`, want: `{"x": 1}`},
		{
			name: "switch", input: `{"n": 5}`, want: `"small"`, wantLog: "s b",
			document: `
do:
- s: {switch: [{big: {when: .n > 10, then: a}}, {small: {then: b}}]}
- a: {set: '${ "big" }', then: end}
- b: {set: '${ "small" }'}`,
		},
		{
			name: "for with while", input: `{"list": [1, 2, 3, 4]}`, want: `{"sum": 6, "at": 2}`,
			document: `do: [{a: {for: {in: .list, each: one, at: i}, while: $one < 4, do: [{b: {set: {sum: '${ .sum + $one }', at: '${ $i }'}}}]}}]`,
		},
		{name: "for over nothing", document: "do: [{a: {for: {in: '[]'}, do: [{b: {set: {x: 1}}}]}}]", input: `{"n": 1}`, want: `{"n": 1}`},
		{name: "for over no list", document: "do: [{a: {for: {in: .n}, do: []}}]", input: `{"n": 1}`, wantErr: "expression (400): Expression Error: for.in"},
		{name: "fork", document: "do: [{a: {fork: {branches: [{b: {set: 'b'}}, {c: {wait: PT1S}}, {d: {call: f, with: {x: 1}}}]}}}]", input: `1`, want: `["b", 1, {"x": 1}]`},
		{
			name: "competing", input: `1`, want: `"c"`, wantLog: "b:Faulted c a",
			document: "do: [{a: {fork: {compete: true, branches: [{b: {raise: {error: {type: 'http://x', status: 400}}}}, {c: {set: c}}, {d: {wait: PT1H}}]}}}]",
		},
		{name: "competing in vain", document: "do: [{a: {fork: {compete: true, branches: [{b: {raise: {error: {type: 'http://x', status: 400}}}}]}}}]", input: `1`, wantErr: "http://x (400)"},
		{
			name: "a branch fails", input: `1`, wantErr: "http://x (400)",
			document: "do: [{a: {fork: {branches: [{d: {call: f}}, {b: {raise: {error: {type: 'http://x', status: 400}}}}]}}}]",
		},
		{
			name: "caught", input: `1`, want: `{"e": {"type": "http://x", "status": 418, "detail": "n is 1", "instance": "/do/0/a/try/0/b"}}`,
			document: `do: [{a: {try: [{b: {raise: {error: {type: 'http://x', status: 418, detail: 'n is ${ . }'}}}}], catch: {errors: {with: {status: 418}}, as: err, do: [{c: {set: {e: '${ $err }'}}}]}}}]`,
		},
		{name: "caught, and nothing done", document: "do: [{a: {try: [{b: {raise: {error: {type: 'http://x', status: 418}}}}], catch: {}}}]", input: `1`, want: `1`},
		{name: "not caught", document: "do: [{a: {try: [{b: {raise: {error: {type: 'http://x', status: 418}}}}], catch: {when: '$error.status == 1'}}}]", input: `1`, wantErr: "http://x (418)"},
		{
			name: "former names of types", input: `1`, want: `1`,
			document: "do: [{a: {try: [{b: {set: '${ 1 + {} }'}}], catch: {errors: {with: {type: 'https://serverlessworkflow.io/dsl/errors/types/expression'}}}}}]",
		},
		{
			name: "retried until it works", input: `1`, want: `"ok"`, wantLog: "b:Faulted a:Retrying b:Faulted a:Retrying b a",
			document: "do: [{a: {try: [{b: {call: f}}], catch: {retry: {delay: PT1S, backoff: {exponential: {}}, limit: {attempt: {count: 2}}}}}}]",
			answer: func() func(Action) Result {
				n := 0
				return func(Action) Result {
					if n++; n%3 == 0 {
						return Result{Output: "ok"}
					}
					return Result{Error: NewError(Communication, "no")}
				}
			}(),
		},
		{
			name: "retried in vain", input: `1`, wantErr: "communication (500)",
			document: "use: {retries: {r: {limit: {attempt: {count: 2}}}}}\ndo: [{a: {try: [{b: {call: f}}], catch: {retry: r}}}]",
			answer:   func(Action) Result { return Result{Error: NewError(Communication, "no")} },
		},
		{
			name: "retried for some time", input: `1`, want: `{"s": 500}`,
			document: "do: [{a: {try: [{b: {call: f}}], catch: {retry: {delay: PT40S, limit: {duration: PT1M}}, do: [{c: {set: {s: '${ $error.status }'}}}]}}}]",
			answer:   func(Action) Result { return Result{Error: NewError(Communication, "no")} },
		},
		{name: "an attempt has a limit", document: "do: [{a: {try: [{b: {wait: PT1H}}], catch: {retry: {limit: {attempt: {count: 1, duration: PT1S}}}}}}]", input: `1`, wantErr: "timeout (408)"},
		{name: "a timeout of a task", document: "use: {timeouts: {t: {after: PT1S}}}\ndo: [{a: {timeout: t, do: [{b: {wait: PT1H}}]}}]", input: `1`, wantErr: "timeout (408): Timeout Error: the task a did not"},
		{name: "a timeout of the workflow", document: "timeout: {after: '${ .t }'}\ndo: [{a: {wait: PT1H}}]", input: `{"t": "PT2S"}`, wantErr: "the workflow did not"},
		{name: "a timeout is caught", document: "do: [{a: {try: [{b: {timeout: {after: PT1S}, wait: PT1H}}], catch: {errors: {with: {status: 408}}}}}]", input: `1`, want: `1`},
		{name: "raise by name", document: "use: {errors: {e: {type: 'http://e', status: 400}}}\ndo: [{a: {raise: {error: e}}}]", input: `1`, wantErr: "http://e (400)"},
		{name: "own functions", document: "use: {functions: {f: {set: {z: '${ .x * 2 }'}}}}\ndo: [{a: {call: f, with: {x: '${ .n }'}, output: {as: .z}}}]", input: `{"n": 4}`, want: `8`},
		{name: "an input that does not fit", document: "input: {schema: {document: {type: object, required: [x]}}}\ndo: []", input: `{}`, wantErr: "validation (400)"},
		{name: "an output that does not fit", document: "do: [{a: {set: {x: 1}, output: {schema: {document: {type: string}}}}}]", input: `{}`, wantErr: "the output of the task a"},
		{name: "a loop without an end", document: "do: [{a: {try: [{c: {set: {x: 1}}}], catch: {}}}, {b: {set: {x: 1}, then: a}}]", input: `{}`, wantErr: "Step Limit"},
		{name: "data that grows", document: "do: [{a: {try: [{c: {set: {x: '${ [., .] }'}}}], catch: {}, then: a}}]", input: `{}`, wantErr: "runtime (500): Runtime Error: the output of the task c has more than 65536 bytes"},
		{name: "a syntax error in time", document: "do: [{a: {set: '${ $nope }'}}]", input: `{}`, wantErr: "expression (400)"},
		{name: "emit", document: "do: [{a: {emit: {event: {with: {source: 's', type: t, data: {x: '${ .n }'}}}}}}]", input: `{"n": 1}`, want: `{"specversion": "1.0", "id": "id-1", "time": "2026-01-01T00:00:00Z", "source": "s", "type": "t", "data": {"x": 1}}`},
		{name: "listen to one", document: "do: [{a: {listen: {to: {one: {with: {type: b.*}}}}}}]", input: `1`, events: "a b bc", want: `["b"]`},
		{name: "listen to all", document: "do: [{a: {listen: {to: {all: [{with: {type: b}}, {with: {data: '${ startswith(\"a\") }'}}]}}}}]", input: `1`, events: "c a a b", want: `["a", "b"]`},
		{name: "listen to any", document: "do: [{a: {listen: {to: {any: [{with: {type: b}}, {with: {type: c}}]}, read: envelope}, output: {as: '.[0].type'}}}]", input: `1`, events: "a c b", want: `"c"`},
		{name: "listen until", document: "do: [{a: {listen: {to: {any: [], until: '. == \"c\"'}}}}]", input: `1`, events: "a b c d", want: `["a", "b", "c"]`},
		{name: "listen until events", document: "do: [{a: {listen: {to: {any: [], until: {one: {with: {type: c}}}}}}}]", input: `1`, events: "a b c d", want: `["a", "b"]`},
		{name: "an event is for one", document: "do: [{a: {listen: {to: {any: []}}}}, {b: {listen: {to: {any: []}}}}]", input: `1`, events: "a b", want: `["b"]`},
		{name: "for each event", document: "do: [{a: {listen: {to: {all: [{with: {type: a}}, {with: {type: b}}]}}, foreach: {item: e, do: [{b: {set: {v: '${ $e + ($index | tostring) }'}}}], output: {as: .v}}}}]", input: `1`, events: "a b", want: `["a0", "b1"]`},
		{name: "correlated", document: "do: [{a: {listen: {to: {all: [{with: {type: a}, correlate: {s: {from: .source}}}, {with: {type: '[ab]'}, correlate: {s: {from: .source}}}]}, read: envelope}, output: {as: 'map(.id)'}}}]", input: `1`, events: "a b@x a@x a", want: `["0", "3"]`},
		{name: "not heard", document: "do: [{a: {listen: {to: {one: {with: {type: x}}}}}}]", input: `1`, events: "a", want: "waiting"},
	} {
		for _, mode := range []struct {
			name   string
			batch  int
			reload bool
		}{{"at once", 100, false}, {"step by step", 1, true}} {
			t.Run(tt.name+"/"+mode.name, func(t *testing.T) {
				w := newWorld(t, tt.document, tt.input)
				w.facts.Batch, w.reload = mode.batch, mode.reload
				if tt.answer != nil {
					w.answer = tt.answer
				}
				for i, event := range strings.Fields(tt.events) {
					kind, source, _ := strings.Cut(event, "@")
					w.facts.Events = append(w.facts.Events, map[string]any{"type": kind, "source": source, "id": fmt.Sprint(i), "data": kind})
				}
				s := w.run()
				if tt.want == "waiting" {
					if s.End != nil {
						t.Fatalf("ended: %+v", s.End)
					}
					return
				}
				if tt.wantErr != "" {
					if s.End.Error == nil || !strings.Contains(s.End.Error.Error(), tt.wantErr) {
						t.Fatalf("error %v, want %q", s.End.Error, tt.wantErr)
					}
					return
				}
				if s.End.Error != nil {
					t.Fatal(s.End.Error)
				}
				want, err := dsl.Decode([]byte(tt.want))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, s.End.Output); diff != "" {
					t.Error(diff)
				}
				if tt.wantLog != "" && tt.wantLog != names(w.log) {
					t.Errorf("log %q, want %q", names(w.log), tt.wantLog)
				}
			})
		}
	}
}

func TestWants(t *testing.T) {
	t.Parallel()
	listen := func(to string) string { return "do: [{a: {do: [{b: {listen: {to: " + to + "}}}]}}]" }
	for _, tt := range []struct {
		name, document string
		consumed       string
		want           bool
	}{
		{"nobody listens", "do: [{a: {set: {x: 1}}}]", "", false},
		{"the type", listen("{one: {with: {type: x}}}"), "", true},
		{"another type", listen("{one: {with: {type: y}}}"), "", false},
		{"taken", listen("{one: {with: {type: x}}}"), "s 1", false},
		{"another taken", listen("{one: {with: {type: x}}}"), "s 2", true},
		{"a pattern", listen("{one: {with: {type: '[xy]'}}}"), "", true},
		{"an expression", listen("{one: {with: {data: '${ .x }'}}}"), "", true},
		{"an expression for another type", listen("{one: {with: {type: y, data: '${ .x }'}}}"), "", false},
		{"one of several", listen("{all: [{with: {type: y}}, {with: {type: x}}]}"), "", true},
		{"anything", listen("{any: []}"), "", true},
		{"an end", listen("{any: [{with: {type: y}}], until: {one: {with: {type: x}}}}"), "", true},
		{"another end", listen("{any: [{with: {type: y}}], until: {one: {with: {type: z}}}}"), "", false},
	} {
		s := &State{Consumed: []string{tt.consumed}}
		if got := s.Wants(newWorld(t, tt.document, "1").doc, map[string]any{"source": "s", "id": "1", "type": "x"}); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// Events that a run has are not forgotten, others are at last.
func TestConsume(t *testing.T) {
	t.Parallel()
	event := func(i int) map[string]any { return map[string]any{"source": "s", "id": fmt.Sprint(i)} }
	m := &machine{state: &State{}, facts: Facts{Events: []map[string]any{event(1)}}}
	for i := range 10 * remembered {
		m.consume(event(i))
	}
	if got := m.state.Consumed; len(got) != remembered+1 || got[0] != "s 1" || got[len(got)-1] != EventKey(event(10*remembered-1)) {
		t.Errorf("%d from %s to %s", len(got), got[0], got[len(got)-1])
	}
}

// A call whose result was lost is made again with the same key; another attempt has another.
func TestKeys(t *testing.T) {
	w := newWorld(t, "do: [{a: {try: [{b: {call: f}}], catch: {retry: {limit: {attempt: {count: 1}}}, do: []}}}]", "1")
	w.answer = func(Action) Result { return Result{Error: NewError(Communication, "no")} }
	s := Begin(t.Context(), w.doc, "id", w.facts)
	first := Advance(t.Context(), w.doc, s, w.facts).Actions
	again := Advance(t.Context(), w.doc, s, w.facts).Actions
	if len(first) != 1 || len(again) != 1 || first[0].Key != again[0].Key {
		t.Errorf("%v, then %v", first, again)
	}
	w.run()
	if len(w.keys) != 2 || w.keys[0] == w.keys[1] {
		t.Errorf("keys %v", w.keys)
	}
}

func TestDelay(t *testing.T) {
	for _, tt := range []struct {
		backoff string
		failed  int
		want    time.Duration
	}{
		{"", 3, 2 * time.Second}, {"constant", 3, 2 * time.Second},
		{"linear", 0, 2 * time.Second}, {"linear", 2, 6 * time.Second}, {"linear", 1 << 40, MaxDelay},
		{"exponential", 0, 2 * time.Second}, {"exponential", 3, 16 * time.Second}, {"exponential", 100, MaxDelay},
	} {
		if got := Delay(tt.backoff, 2*time.Second, tt.failed, 0, 0, ""); got != tt.want {
			t.Errorf("%s after %d: %v, want %v", tt.backoff, tt.failed, got, tt.want)
		}
	}
	got := Delay("", 0, 1, time.Second, 3*time.Second, "x")
	if got < time.Second || got >= 3*time.Second || got != Delay("", 0, 1, time.Second, 3*time.Second, "x") {
		t.Errorf("jitter %v", got)
	}
}

// A run that loops does not grow.
func TestStateSize(t *testing.T) {
	w := newWorld(t, "do: [{a: {set: {n: '${ .n + 1 }'}}}, {b: {if: .n < 300, set: '${ . }', then: a}}]", `{"n": 0}`)
	s := Begin(t.Context(), w.doc, "id", w.facts)
	w.facts.Batch = 1
	for s.End == nil {
		Advance(t.Context(), w.doc, s, w.facts)
		if text, _ := json.Marshal(s); len(text) > 1000 {
			t.Fatalf("%d bytes after %d steps", len(text), s.Steps)
		}
	}
}

// BenchmarkStep is what a task with a call costs but for the call and the write: the turn before and after, and the state as text.
func BenchmarkStep(b *testing.B) {
	doc, problems := dsl.ParseText([]byte(head+"do: [{a: {call: f, with: {x: '${ .x }'}}}, {b: {set: '${ . }', then: a}}]"), nil)
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	facts := Facts{Now: time.Now(), Input: map[string]any{"x": strings.Repeat("x", 1000)}, Batch: 100, MaxBytes: 8 << 20}
	s := Begin(b.Context(), doc, "id", facts)
	for b.Loop() {
		turn := Advance(b.Context(), doc, s, facts)
		if _, err := json.Marshal(s); err != nil {
			b.Fatal(err)
		}
		s.Resolve(turn.Actions[0].Seq, Result{Output: turn.Actions[0].Arguments})
	}
}
