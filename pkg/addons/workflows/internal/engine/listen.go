// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/expression"
)

// EventKey is what makes an event the same as another.
func EventKey(event map[string]any) string { return fmt.Sprintf("%v %v", event["source"], event["id"]) }

// remembered is how many keys a run keeps of events that it has taken and has no more: who sends one again does so soon.
const remembered = 512

// consume notes that an event is taken.
func (m *machine) consume(event map[string]any) {
	m.state.Consumed = append(m.state.Consumed, EventKey(event))
	over := len(m.state.Consumed) - len(m.facts.Events) - remembered
	if over <= 0 {
		return
	}
	there := map[string]bool{}
	for _, e := range m.facts.Events {
		there[EventKey(e)] = true
	}
	m.state.Consumed = slices.DeleteFunc(m.state.Consumed, func(key string) bool {
		if over <= 0 || there[key] {
			return false
		}
		over--
		return true
	})
}

// Wants tells whether a task may still take an event. What depends on more than the event and the document is not looked at.
func (s *State) Wants(doc *dsl.Workflow, event map[string]any) bool {
	if slices.Contains(s.Consumed, EventKey(event)) {
		return false
	}
	for _, t := range doc.Tasks {
		if t.Listen != nil && mayTake(t.Listen.To, event) {
			return true
		}
	}
	return false
}

func mayTake(s dsl.Strategy, event map[string]any) bool {
	fits := func(filter dsl.Filter) bool {
		for name, want := range filter.With {
			if !isExpression(want) && !equal(want, event[name]) {
				return false
			}
		}
		return true
	}
	return s.Every || slices.ContainsFunc(s.Any, fits) || slices.ContainsFunc(s.All, fits) || s.UntilEvents != nil && mayTake(*s.UntilEvents, event)
}

// listen takes events that match until there are enough, and does with each what there is to be done.
func (m *machine) listen(t *dsl.Task, f *Frame, sc scope) outcome {
	if !f.Listen.Complete {
		if err := m.hear(t, f, sc); err != nil {
			return fault(err)
		}
	}
	for t.Listen.Each != nil && len(f.Listen.Outputs) < len(f.Items) {
		if o := m.each(t, f, sc); o.status != done {
			return o
		}
	}
	if !f.Listen.Complete {
		m.turn.Listening = true
		return outcome{status: blocked}
	}
	output := f.Items
	if t.Listen.Each != nil {
		output = f.Listen.Outputs
	}
	if output == nil {
		output = []any{}
	}
	return outcome{status: done, value: output}
}

// each runs the tasks for the first event that they have not been run for.
func (m *machine) each(t *dsl.Task, f *Frame, sc scope) outcome {
	e, i := t.Listen.Each, len(f.Listen.Outputs)
	inner := sc.with(expression.Vars{e.Item: f.Items[i], e.At: i})
	if f.Body == nil {
		f.Body = &Sequence{List: e.Do, Data: f.Items[i]}
	}
	o := m.sequence(f.Body, inner)
	if o.status != done {
		return o
	}
	output, err := m.transform(e.Output, o.value, m.arguments(inner))
	if err != nil {
		return fault(err)
	}
	if invalid := e.Output.Validate(output); invalid != nil {
		return fault(NewError(Validation, "the output of foreach: %v", invalid))
	}
	if err := m.export(e.Export, output, inner); err != nil {
		return fault(err)
	}
	f.Listen.Outputs, f.Body = append(f.Listen.Outputs, output), nil
	return outcome{status: done}
}

// hear looks through the events that nobody has taken yet.
func (m *machine) hear(t *dsl.Task, f *Frame, sc scope) *Error {
	to := t.Listen.To
	for _, event := range m.facts.Events {
		if f.Listen.Complete {
			return nil
		}
		if slices.Contains(m.state.Consumed, EventKey(event)) {
			continue
		}
		if to.UntilEvents != nil {
			taken, over, err := m.offer(*to.UntilEvents, &f.Listen.UntilMatched, f, event, sc)
			if err != nil {
				return err
			}
			if taken {
				m.consume(event)
				f.Listen.Complete = over
				continue
			}
		}
		taken, over, err := m.offer(to, &f.Listen.Matched, f, event, sc)
		if err != nil {
			return err
		}
		if !taken {
			continue
		}
		m.consume(event)
		f.Items = append(f.Items, read(event, t.Listen.Read))
		if to.Until != "" {
			on := read(event, t.Listen.Read)
			if over, err2 := m.doc.Expressions.Condition(m.ctx, to.Until, on, m.arguments(sc)); err2 != nil {
				return NewError(Expression, "until: %v", err2)
			} else if over {
				f.Listen.Complete = true
			}
			continue
		}
		f.Listen.Complete = over && to.UntilEvents == nil
	}
	return nil
}

// offer tells whether a strategy takes an event, and whether it has all then.
func (m *machine) offer(s dsl.Strategy, matched *[]bool, f *Frame, event map[string]any, sc scope) (taken, over bool, err *Error) {
	if s.Every {
		return true, true, nil
	}
	for _, filter := range s.Any {
		if ok, err := m.match(filter, f, event, sc); err != nil || ok {
			return ok, ok, err
		}
	}
	if len(*matched) < len(s.All) {
		*matched = make([]bool, len(s.All))
	}
	for i, filter := range s.All {
		if (*matched)[i] {
			continue
		}
		ok, err := m.match(filter, f, event, sc)
		if err != nil {
			return false, false, err
		}
		if ok {
			(*matched)[i] = true
			return true, !slices.Contains(*matched, false), nil
		}
	}
	return false, false, nil
}

// match tells whether an event has the attributes and correlations of a filter.
func (m *machine) match(filter dsl.Filter, f *Frame, event map[string]any, sc scope) (bool, *Error) {
	vars := m.arguments(sc)
	for name, want := range filter.With {
		if !m.attribute(want, event[name], vars) {
			return false, nil
		}
	}
	found := map[string]any{}
	for name, c := range filter.Correlate {
		got, err := m.doc.Expressions.Eval(m.ctx, c.From, event, vars)
		if err != nil {
			return false, nil //nolint:nilerr // the event has not the form that the expression is made for
		}
		want, known := f.Listen.Correlations[name]
		if c.Expect != "" {
			known = true
			if want, err = m.doc.Expressions.Value(m.ctx, c.Expect, f.Input, vars); err != nil {
				return false, NewError(Expression, "correlate.%s.expect: %v", name, err)
			}
		}
		if got == nil || known && !reflect.DeepEqual(got, want) {
			return false, nil
		}
		found[name] = got
	}
	if len(found) > 0 {
		if f.Listen.Correlations == nil {
			f.Listen.Correlations = map[string]any{}
		}
		maps.Copy(f.Listen.Correlations, found)
	}
	return true, nil
}

// attribute compares an attribute with what a filter wants: an expression of true on it or of its value, a regular expression, or a value.
func (m *machine) attribute(want, got any, vars expression.Vars) bool {
	if !isExpression(want) {
		return equal(want, got)
	}
	value, err := m.doc.Expressions.Value(m.ctx, want, got, vars)
	if err != nil {
		return false // the attribute has not the form that the expression is made for
	}
	if b, ok := value.(bool); ok {
		return b
	}
	return reflect.DeepEqual(value, got)
}

func isExpression(want any) bool {
	text, ok := want.(string)
	return ok && strings.HasPrefix(strings.TrimSpace(text), "${")
}

// equal compares an attribute with a regular expression, or a value.
func equal(want, got any) bool {
	text, ok := want.(string)
	s, too := got.(string)
	if !ok || !too || s == text {
		return reflect.DeepEqual(want, got)
	}
	pattern, err := regexp.Compile("^(?:" + text + ")$")
	return err == nil && pattern.MatchString(s)
}

// read returns what a task sees of an event.
func read(event map[string]any, how string) any {
	switch how {
	case "envelope":
		return event
	case "raw":
		if encoded, ok := event["data_base64"].(string); ok {
			return encoded
		}
		encoded, _ := json.Marshal(event["data"])
		return base64.StdEncoding.EncodeToString(encoded)
	}
	return event["data"]
}
