// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/expression"
)

// prepare makes what a frame of its kind begins with.
func (m *machine) prepare(t *dsl.Task, f *Frame, sc scope) *Error {
	sc.vars["input"] = f.Input
	switch t.Kind {
	case dsl.KindDo:
		f.Body = &Sequence{List: t.Do, Data: f.Input}
	case dsl.KindFor:
		items, err := m.doc.Expressions.Eval(m.ctx, t.For.In, f.Input, m.arguments(sc))
		if err != nil {
			return NewError(Expression, "for.in: %v", err)
		}
		list, ok := items.([]any)
		if !ok {
			return NewError(Expression, "for.in: %q is not a list but %T", t.For.In, items)
		}
		f.Items, f.Index = list, -1
		f.Body = &Sequence{List: t.For.Do, Data: f.Input, Next: len(m.doc.Lists[t.For.Do])}
	case dsl.KindFork:
		f.Branches = make([]Branch, len(m.doc.Lists[t.Fork.Branches]))
	case dsl.KindTry:
		f.Try = &Attempts{FirstAt: m.facts.Now}
		return m.attempt(t, f, sc)
	case dsl.KindWait:
		at, err := m.after(t.Wait, f.StartedAt, f.Input, m.arguments(sc))
		f.Wake = at
		return err
	case dsl.KindListen:
		f.Listen = &Heard{Matched: make([]bool, len(t.Listen.To.All))}
	}
	return nil
}

// body takes what a task does as far as it goes. Its value is the raw output.
func (m *machine) body(t *dsl.Task, f *Frame, sc scope) outcome {
	switch t.Kind {
	case dsl.KindDo:
		return m.sequence(f.Body, sc)
	case dsl.KindFor:
		return m.loop(t, f, sc)
	case dsl.KindFork:
		return m.fork(t, f, sc)
	case dsl.KindTry:
		return m.try(t, f, sc)
	case dsl.KindListen:
		return m.listen(t, f, sc)
	case dsl.KindSet:
		value, err := m.doc.Expressions.Value(m.ctx, t.Set, f.Input, m.arguments(sc))
		if err != nil {
			return fault(NewError(Expression, "set: %v", err))
		}
		return outcome{status: done, value: value}
	case dsl.KindSwitch:
		return m.choose(t, f, sc)
	case dsl.KindRaise:
		return m.raise(t, f, sc)
	case dsl.KindWait:
		if m.expired(f.Wake) {
			return outcome{status: done, value: f.Input}
		}
		return outcome{status: blocked}
	}
	return m.outside(t, f, sc)
}

// choose finds the case that is taken; the output is the input. Without one the flow goes on as the task says.
func (m *machine) choose(t *dsl.Task, f *Frame, sc scope) outcome {
	vars, otherwise := m.arguments(sc), ""
	for _, c := range t.Switch {
		if c.When == "" {
			otherwise = c.Then
			continue
		}
		ok, err := m.doc.Expressions.Condition(m.ctx, c.When, f.Input, vars)
		if err != nil {
			return fault(NewError(Expression, "the case %s: %v", c.Name, err))
		}
		if ok {
			return outcome{status: done, value: f.Input, then: c.Then}
		}
	}
	return outcome{status: done, value: f.Input, then: otherwise}
}

func (m *machine) raise(t *dsl.Task, f *Frame, sc scope) outcome {
	value, err := m.doc.Expressions.Value(m.ctx, t.Raise, f.Input, m.arguments(sc))
	if err != nil {
		return fault(NewError(Expression, "raise: %v", err))
	}
	object := value.(map[string]any)
	text := func(name string) string { s, _ := object[name].(string); return s }
	status, _ := object["status"].(int)
	return fault(&Error{Type: text("type"), Status: status, Title: text("title"), Detail: text("detail"), Instance: f.Reference})
}

// loop runs a list of tasks for each item. What a round comes to is what the next one begins with.
func (m *machine) loop(t *dsl.Task, f *Frame, sc scope) outcome {
	for {
		round := sc
		if f.Index >= 0 && f.Index < len(f.Items) {
			round = sc.with(expression.Vars{t.For.Each: f.Items[f.Index], t.For.At: f.Index})
		}
		if o := m.sequence(f.Body, round); o.status != done {
			return o
		}
		data := f.Body.Data
		if f.Index+1 >= len(f.Items) {
			return outcome{status: done, value: data}
		}
		if t.For.While != "" {
			next := sc.with(expression.Vars{t.For.Each: f.Items[f.Index+1], t.For.At: f.Index + 1})
			ok, err := m.doc.Expressions.Condition(m.ctx, t.For.While, data, m.arguments(next))
			if err != nil {
				return fault(NewError(Expression, "while: %v", err))
			}
			if !ok {
				return outcome{status: done, value: data}
			}
		}
		if o := m.step(); o != nil {
			return *o
		}
		f.Index++
		f.Body = &Sequence{List: t.For.Do, Data: data}
	}
}

// fork runs all branches. If they compete, the first that is done decides, and what the others wait for is dropped.
func (m *machine) fork(t *dsl.Task, f *Frame, sc scope) outcome {
	list := m.doc.Lists[t.Fork.Branches]
	open, fulls := 0, 0
	var last *Error
	for i := range f.Branches {
		b := &f.Branches[i]
		if b.Done {
			last = b.Error
			continue
		}
		if b.Frame == nil {
			if o := m.step(); o != nil {
				if o.status == faulted {
					return *o
				}
				fulls++
				continue
			}
			b.Frame = m.frame(list[i].Reference, f.Input)
		}
		o := m.task(b.Frame, sc)
		switch {
		case o.status == blocked:
			open++
			continue
		case o.status == faulted && (!t.Fork.Compete || o.fatal):
			return o
		case o.status == ended || o.then == dsl.End:
			return outcome{status: ended, value: o.value}
		case o.status == done && t.Fork.Compete:
			return outcome{status: done, value: o.value}
		}
		*b = Branch{Done: true, Output: o.value, Error: o.err}
		last = o.err
	}
	switch {
	case open+fulls > 0:
		return outcome{status: blocked}
	case t.Fork.Compete:
		return fault(last)
	}
	outputs := make([]any, len(f.Branches))
	for i, b := range f.Branches {
		outputs[i] = b.Output
	}
	return outcome{status: done, value: outputs}
}

// attempt begins the tasks of a try, for the first time or again.
func (m *machine) attempt(t *dsl.Task, f *Frame, sc scope) *Error {
	f.Try.RetryAt, f.Try.Deadline = nil, nil
	f.Body = &Sequence{List: t.Try.Do, Data: f.Input}
	if retry := t.Try.Retry; retry != nil && retry.AttemptDuration != nil {
		at, err := m.after(retry.AttemptDuration, m.facts.Now, f.Input, m.arguments(sc))
		f.Try.Deadline = at
		return err
	}
	return nil
}

// try runs tasks, and does something about their errors: tries again, or runs the tasks of catch.
func (m *machine) try(t *dsl.Task, f *Frame, sc scope) outcome {
	for {
		if f.Try.Caught != nil && f.Try.RetryAt == nil {
			return m.sequence(f.Body, sc.with(expression.Vars{t.Try.As: f.Try.Caught.object()}))
		}
		if f.Try.RetryAt != nil {
			if !m.expired(f.Try.RetryAt) {
				return outcome{status: blocked}
			}
			if o := m.step(); o != nil {
				return *o
			}
			f.Try.Caught = nil
			if err := m.attempt(t, f, sc); err != nil {
				return fault(err)
			}
		}
		var o outcome
		if m.expired(f.Try.Deadline) {
			err := NewError(Timeout, "an attempt did not end in time")
			err.Instance = f.Reference
			o = fault(err)
		} else {
			o = m.sequence(f.Body, sc.until(f.Try.Deadline))
		}
		if o.status != faulted || o.fatal {
			return o
		}
		if over := m.caught(t, f, sc, o.err); over != nil {
			return *over
		}
	}
}

// caught decides about an error. It returns nil if the try goes on, with another attempt or with what catch does.
func (m *machine) caught(t *dsl.Task, f *Frame, sc scope, failure *Error) *outcome {
	failed := fault(failure)
	vars := m.arguments(sc.with(expression.Vars{t.Try.As: failure.object()}))
	filter, err := m.doc.Expressions.Value(m.ctx, any(t.Try.With), f.Input, vars)
	if err != nil {
		failed = fault(NewError(Expression, "catch.errors: %v", err))
		return &failed
	}
	if with, _ := filter.(map[string]any); !failure.matches(with) {
		return &failed
	}
	ok, problem := m.conditions(t.Try.When, t.Try.ExceptWhen, f.Input, vars)
	if problem != nil || !ok {
		if problem != nil {
			failed = fault(problem)
		}
		return &failed
	}
	if t.Try.Retry != nil {
		at, problem := m.retry(t.Try.Retry, f, vars)
		if problem != nil {
			failed = fault(problem)
			return &failed
		}
		if at != nil {
			f.Try.Failed++
			f.Try.Caught, f.Try.RetryAt, f.Body = failure, at, &Sequence{}
			m.log(f, Retrying, failure)
			return nil
		}
		if t.Try.Catch == "" {
			return &failed
		}
	}
	if t.Try.Catch == "" {
		return &outcome{status: done, value: f.Input}
	}
	f.Try.Caught, f.Body = failure, &Sequence{List: t.Try.Catch, Data: f.Input}
	return nil
}

func (m *machine) conditions(when, exceptWhen string, on any, vars expression.Vars) (bool, *Error) {
	if when != "" {
		if ok, err := m.doc.Expressions.Condition(m.ctx, when, on, vars); err != nil {
			return false, NewError(Expression, "when: %v", err)
		} else if !ok {
			return false, nil
		}
	}
	if exceptWhen != "" {
		if ok, err := m.doc.Expressions.Condition(m.ctx, exceptWhen, on, vars); err != nil {
			return false, NewError(Expression, "exceptWhen: %v", err)
		} else if ok {
			return false, nil
		}
	}
	return true, nil
}

// retry returns when a try runs again, or nil if it does not.
func (m *machine) retry(r *dsl.Retry, f *Frame, vars expression.Vars) (*time.Time, *Error) {
	ok, err := m.conditions(r.When, r.ExceptWhen, f.Input, vars)
	if err != nil || !ok || r.Count > 0 && f.Try.Failed >= r.Count {
		return nil, err
	}
	length := func(d any) time.Duration {
		if d == nil || err != nil {
			return 0
		}
		var l time.Duration
		l, err = m.duration(d, f.Input, vars)
		return l
	}
	delay := Delay(r.Backoff, length(r.Delay), f.Try.Failed, length(r.JitterFrom), length(r.JitterTo), m.key(f))
	limit := length(r.Duration)
	if err != nil {
		return nil, err
	}
	at := m.facts.Now.Add(delay)
	if limit > 0 && at.Sub(f.Try.FirstAt) > limit {
		return nil, nil
	}
	return &at, nil
}
