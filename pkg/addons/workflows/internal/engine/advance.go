// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/expression"
)

// machine is one Advance.
type machine struct {
	ctx   context.Context
	doc   *dsl.Workflow
	state *State
	facts Facts
	turn  Turn
	// budget is how many more tasks may begin in this turn.
	budget int
}

// status is how far a task or a list went.
type status int

const (
	blocked status = iota
	done
	faulted
	ended // the whole workflow ends here, gracefully
)

// outcome is what came of a task or a list.
type outcome struct {
	status status
	value  any
	err    *Error
	// then is where the flow goes, of a task that is done.
	then string
	// fatal errors are those that no try catches.
	fatal bool
	// skipped tasks had an if that was not true.
	skipped bool
}

func fault(err *Error) outcome { return outcome{status: faulted, err: err} }

// scope is what is known inside a task beyond the state: variables, and the earliest deadline around it.
type scope struct {
	vars     expression.Vars
	deadline time.Time
	// task is what expressions see as $task.
	task map[string]any
}

// with returns the scope with more variables.
func (s scope) with(vars expression.Vars) scope {
	all := maps.Clone(s.vars)
	if all == nil {
		all = expression.Vars{}
	}
	maps.Copy(all, vars)
	s.vars = all
	return s
}

// until returns the scope with a deadline, if that is earlier than what is around.
func (s scope) until(deadline *time.Time) scope {
	if deadline != nil && (s.deadline.IsZero() || deadline.Before(s.deadline)) {
		s.deadline = *deadline
	}
	return s
}

// Begin returns the state of a run before its first task. A workflow that faults at once has an end already.
func Begin(ctx context.Context, doc *dsl.Workflow, id string, facts Facts) *State {
	s := &State{ID: id, StartedAt: facts.Now}
	m := &machine{ctx: ctx, doc: doc, state: s, facts: facts}
	fail := func(err *Error) *State {
		err.Instance = "/"
		s.End = &End{Error: err, At: facts.Now}
		return s
	}
	if err := doc.Input.Validate(facts.Input); err != nil {
		return fail(NewError(Validation, "the input of the workflow: %v", err))
	}
	input, err := m.transform(doc.Input, facts.Input, m.arguments(scope{}))
	if err != nil {
		return fail(err)
	}
	s.Input = input
	if doc.Timeout != nil {
		if s.Deadline, err = m.after(doc.Timeout.After, facts.Now, input, m.arguments(scope{})); err != nil {
			return fail(err)
		}
	}
	s.Root = Sequence{List: "/do", Data: input}
	return s
}

// Advance takes a run as far as it goes, and changes its state accordingly.
func Advance(ctx context.Context, doc *dsl.Workflow, s *State, facts Facts) Turn {
	if s.End != nil {
		return Turn{}
	}
	m := &machine{ctx: ctx, doc: doc, state: s, facts: facts, budget: facts.Batch}
	sc := scope{}.until(s.Deadline)
	if m.expired(s.Deadline) {
		err := NewError(Timeout, "the workflow did not end in time")
		err.Instance = "/"
		m.finish(fault(err))
		return m.turn
	}
	if o := m.sequence(&s.Root, sc); o.status != blocked {
		m.finish(o)
	}
	// What was asked for by a branch that lost, or whose sibling failed, is wanted no more.
	m.turn.Actions = slices.DeleteFunc(m.turn.Actions, func(a Action) bool { return find(s.Root.Child, a.Seq) == nil })
	return m.turn
}

// finish ends the run.
func (m *machine) finish(o outcome) {
	end := &End{Error: o.err, At: m.facts.Now}
	if o.err == nil {
		output, err := m.transform(m.doc.Output, o.value, m.arguments(scope{}))
		if err == nil {
			if invalid := m.doc.Output.Validate(output); invalid != nil {
				err = NewError(Validation, "the output of the workflow: %v", invalid)
			}
		}
		if err != nil {
			err.Instance = "/"
		}
		end.Output, end.Error = output, err
	}
	log := m.turn.Log
	m.turn = Turn{Log: log}
	m.state.End, m.state.Root = end, Sequence{}
	m.state.Input, m.state.Context, m.state.Deadline = nil, nil, nil
}

// Resolve tells a run what came of an action. It returns false if nobody waits for it.
func (s *State) Resolve(seq int, result Result) bool {
	f := find(s.Root.Child, seq)
	if f == nil || f.Result != nil {
		return false
	}
	f.Result = &result
	return true
}

func find(f *Frame, seq int) *Frame {
	if f == nil || f.Seq == seq {
		return f
	}
	if f.Body != nil {
		if found := find(f.Body.Child, seq); found != nil {
			return found
		}
	}
	for _, b := range f.Branches {
		if found := find(b.Frame, seq); found != nil {
			return found
		}
	}
	return nil
}

// step counts a step. An outcome that is not nil is returned at once: this turn is full, or the run has too many steps.
func (m *machine) step() *outcome {
	if m.facts.MaxSteps > 0 && m.state.Steps >= m.facts.MaxSteps {
		o := fault(NewError(Runtime, "the run has taken %d steps, which is its limit: a loop without an end, or spec.maxSteps is too low", m.state.Steps))
		o.fatal, o.err.Title = true, StepLimit
		return &o
	}
	if m.budget <= 0 {
		m.turn.Again = true
		return &outcome{status: blocked}
	}
	m.budget--
	m.state.Steps++
	return nil
}

// StepLimit is the title of the error of a run that has taken too many steps.
const StepLimit = "Step Limit"

// sequence takes a list of tasks as far as it goes.
func (m *machine) sequence(s *Sequence, sc scope) outcome {
	list := m.doc.Lists[s.List]
	for {
		if s.Child == nil {
			if s.Next >= len(list) {
				return outcome{status: done, value: s.Data}
			}
			if o := m.step(); o != nil {
				return *o
			}
			s.Child = m.frame(list[s.Next].Reference, s.Data)
		}
		o := m.task(s.Child, sc)
		if o.status != done {
			return o
		}
		s.Child, s.Data = nil, o.value
		switch o.then {
		case "", dsl.Continue:
			s.Next++
		case dsl.Exit:
			return outcome{status: done, value: s.Data}
		case dsl.End:
			return outcome{status: ended, value: s.Data}
		default:
			for i, t := range list {
				if t.Name == o.then {
					s.Next = i
				}
			}
		}
	}
}

// frame begins a task.
func (m *machine) frame(reference string, data any) *Frame {
	return &Frame{Seq: m.state.Steps, Reference: reference, StartedAt: m.facts.Now, Raw: data}
}

// task takes a task as far as it goes: from its raw input to its transformed output.
func (m *machine) task(f *Frame, sc scope) outcome {
	t := m.doc.Tasks[f.Reference]
	if t == nil {
		o := fault(NewError(Runtime, "the document has no task %s: it was changed while the run was on its way", f.Reference))
		o.fatal = true
		return o
	}
	sc = m.descriptor(t, f, sc)
	o := m.perform(t, f, &sc)
	switch o.status {
	case blocked:
		if m.turn.Current == "" {
			m.turn.Current = f.Reference
		}
		return o
	case faulted:
		if o.err.Instance == "" {
			o.err.Instance = f.Reference
		}
		m.log(f, Faulted, o.err)
	case ended:
		m.log(f, Completed, nil)
	case done:
		if o.skipped {
			m.log(f, Skipped, nil)
		} else {
			m.log(f, Completed, nil)
		}
	}
	return o
}

func (m *machine) log(f *Frame, outcome string, err *Error) {
	m.turn.Log = append(m.turn.Log, Entry{
		Seq: f.Seq, Reference: f.Reference, StartedAt: f.StartedAt, EndedAt: m.facts.Now, Outcome: outcome, Error: err,
	})
}

// perform is task without its log.
func (m *machine) perform(t *dsl.Task, f *Frame, sc *scope) outcome {
	if !f.Begun {
		o, proceed := m.begin(t, f, sc)
		if !proceed {
			return o
		}
	}
	if m.expired(f.Deadline) {
		return fault(NewError(Timeout, "the task %s did not end in time", t.Name))
	}
	sc.vars["input"] = f.Input
	inner := sc.until(f.Deadline)
	o := m.body(t, f, inner)
	if o.status != done {
		return o
	}
	sc.task["output"] = o.value
	output, err := m.transform(t.Output, o.value, m.arguments(*sc))
	if err != nil {
		return fault(err)
	}
	if limit := m.facts.MaxBytes; limit > 0 && expression.Weigh(output, limit) > limit {
		o := fault(NewError(Runtime, "the output of the task %s has more than %d bytes, which is all that a run may keep: put data elsewhere, and "+
			"hand on where, or leave out by output.as what is not needed", t.Name, limit))
		o.fatal = true
		return o
	}
	if invalid := t.Output.Validate(output); invalid != nil {
		return fault(NewError(Validation, "the output of the task %s: %v", t.Name, invalid))
	}
	if err := m.export(t.Export, output, *sc); err != nil {
		return fault(err)
	}
	if o.then == "" {
		o.then = t.Then
	}
	o.value = output
	return o
}

// export replaces the context, if the task exports one.
func (m *machine) export(d dsl.Data, output any, sc scope) *Error {
	if d.Expression == nil {
		return nil
	}
	vars := m.arguments(sc)
	vars["output"] = output
	exported, err := m.transform(d, output, vars)
	if err != nil {
		return err
	}
	if invalid := d.Validate(exported); invalid != nil {
		return NewError(Validation, "the exported context: %v", invalid)
	}
	m.state.Context, m.state.Exported = exported, true
	return nil
}

// begin checks whether a task runs, and with what input; it returns false, with an outcome, if it does not.
func (m *machine) begin(t *dsl.Task, f *Frame, sc *scope) (outcome, bool) {
	if t.If != "" {
		ok, err := m.doc.Expressions.Condition(m.ctx, t.If, f.Raw, m.arguments(*sc))
		if err != nil {
			return fault(NewError(Expression, "if: %v", err)), false
		}
		if !ok {
			return outcome{status: done, value: f.Raw, skipped: true}, false
		}
	}
	if err := t.Input.Validate(f.Raw); err != nil {
		return fault(NewError(Validation, "the input of the task %s: %v", t.Name, err)), false
	}
	input, err := m.transform(t.Input, f.Raw, m.arguments(*sc))
	if err != nil {
		return fault(err), false
	}
	f.Input = input
	if t.Timeout != nil {
		if f.Deadline, err = m.after(t.Timeout.After, f.StartedAt, input, m.arguments(*sc)); err != nil {
			return fault(err), false
		}
	}
	f.Begun = true
	if err := m.prepare(t, f, *sc); err != nil {
		return fault(err), false
	}
	return outcome{}, true
}

// expired tells whether a time has come, and otherwise sees to it that somebody looks again then.
func (m *machine) expired(at *time.Time) bool {
	if at == nil {
		return false
	}
	if !m.facts.Now.Before(*at) {
		return true
	}
	if m.turn.Wake.IsZero() || at.Before(m.turn.Wake) {
		m.turn.Wake = *at
	}
	return false
}

// transform evaluates from or as.
func (m *machine) transform(d dsl.Data, value any, vars expression.Vars) (any, *Error) {
	var out any
	var err error
	switch e := d.Expression.(type) {
	case nil:
		return value, nil
	case string:
		out, err = m.doc.Expressions.Eval(m.ctx, e, value, vars)
	default:
		out, err = m.doc.Expressions.Value(m.ctx, e, value, vars)
	}
	if err != nil {
		return nil, NewError(Expression, "%v", err)
	}
	return out, nil
}

// after returns the time a duration after another.
func (m *machine) after(d any, from time.Time, on any, vars expression.Vars) (*time.Time, *Error) {
	length, err := m.duration(d, on, vars)
	if err != nil {
		return nil, err
	}
	at := from.Add(length)
	return &at, nil
}

func (m *machine) duration(d, on any, vars expression.Vars) (time.Duration, *Error) {
	value, err := m.doc.Expressions.Value(m.ctx, d, on, vars)
	if err != nil {
		return 0, NewError(Expression, "%v", err)
	}
	length, err := dsl.ParseDuration(value)
	if err != nil {
		return 0, NewError(Configuration, "%v", err)
	}
	return length, nil
}

// descriptor adds to a scope what a task is.
func (m *machine) descriptor(t *dsl.Task, f *Frame, sc scope) scope {
	sc = sc.with(nil)
	delete(sc.vars, "input")
	sc.task = map[string]any{
		"name": t.Name, "reference": t.Reference, "definition": t.Definition, "input": f.Raw, "startedAt": moment(f.StartedAt),
	}
	return sc
}

// arguments returns all that expressions may refer to.
func (m *machine) arguments(sc scope) expression.Vars {
	vars := expression.Vars{
		"context": m.context(), "input": nil, "output": nil, "authorization": nil, "task": sc.task,
		"secrets": m.facts.Secrets,
		"workflow": map[string]any{
			"id": m.state.ID, "definition": m.doc.Source, "input": m.facts.Input, "startedAt": moment(m.state.StartedAt),
		},
		"runtime": map[string]any{"name": "minik8s", "version": Version, "metadata": map[string]any{}},
	}
	maps.Copy(vars, sc.vars)
	return vars
}

func (m *machine) context() any {
	if m.state.Exported {
		return m.state.Context
	}
	return m.state.Input
}

// moment is a time as expressions see it.
func moment(t time.Time) map[string]any {
	return map[string]any{
		"iso8601": t.UTC().Format(time.RFC3339Nano),
		"epoch":   map[string]any{"seconds": int(t.Unix()), "milliseconds": int(t.UnixMilli())},
	}
}

// key is that of a call: the same whenever the same task is run again after a crash, another for each new attempt.
func (m *machine) key(f *Frame) string { return fmt.Sprintf("%s-%d", m.state.ID, f.Seq) }
