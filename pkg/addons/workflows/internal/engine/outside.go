// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"time"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
)

// outside is the part of tasks that somebody else does: it asks for an action until there is a result.
func (m *machine) outside(t *dsl.Task, f *Frame, sc scope) outcome {
	if t.Kind == dsl.KindCall {
		if reference, ok := m.doc.Use.Functions[t.Call.Function]; ok {
			return m.function(t, f, sc, reference)
		}
	}
	if f.Result != nil {
		if f.Result.Error != nil {
			err := *f.Result.Error
			err.Instance = f.Reference
			return fault(&err)
		}
		return outcome{status: done, value: f.Result.Output}
	}
	action, err := m.action(t, f, sc)
	if err != nil {
		return fault(err)
	}
	action.Seq, action.Key, action.Reference, action.Deadline, action.Input = f.Seq, m.key(f), f.Reference, sc.deadline, f.Input
	m.turn.Actions = append(m.turn.Actions, *action)
	return outcome{status: blocked}
}

// function runs one of the workflow's own functions: a task, whose input is what it is called with.
func (m *machine) function(t *dsl.Task, f *Frame, sc scope, reference string) outcome {
	if len(f.Branches) == 0 {
		data := f.Input
		if t.Call.With != nil {
			with, err := m.doc.Expressions.Value(m.ctx, t.Call.With, f.Input, m.arguments(sc))
			if err != nil {
				return fault(NewError(Expression, "with: %v", err))
			}
			data = with
		}
		if o := m.step(); o != nil {
			return *o
		}
		f.Branches = []Branch{{Frame: m.frame(reference, data)}}
	}
	o := m.task(f.Branches[0].Frame, sc)
	if o.status == done && o.then == dsl.End {
		return outcome{status: ended, value: o.value}
	}
	o.then, o.skipped = "", false
	return o
}

// action says what is to be done, with all expressions evaluated.
func (m *machine) action(t *dsl.Task, f *Frame, sc scope) (*Action, *Error) {
	vars := m.arguments(sc)
	evaluated := func(what string, value map[string]any) (map[string]any, *Error) {
		v, err := m.doc.Expressions.Value(m.ctx, value, f.Input, vars)
		if err != nil {
			return nil, NewError(Expression, "%s: %v", what, err)
		}
		return v.(map[string]any), nil
	}
	switch t.Kind {
	case dsl.KindEmit:
		event, err := evaluated("emit", t.Emit)
		if err != nil {
			return nil, err
		}
		return &Action{Kind: ActionEmit, Arguments: m.event(event, f)}, nil
	case dsl.KindRun:
		kind, process := ActionContainer, t.Run.Container
		if t.Run.Workflow != nil {
			kind, process = ActionWorkflow, t.Run.Workflow
		}
		arguments, err := evaluated("run", process)
		return &Action{Kind: kind, Name: t.Name, Arguments: arguments, Await: t.Run.Await, Return: t.Run.Return}, err
	}
	with, err := evaluated("with", m.authenticated(t.Call.With))
	if err == nil {
		err = m.secretPolicies(with)
	}
	if err != nil {
		return nil, err
	}
	switch t.Call.Function {
	case "http", "openapi", "grpc":
		return &Action{Kind: ActionCall, Name: t.Call.Function, Arguments: with}, nil
	}
	a := &Action{Kind: ActionFunction, Name: t.Call.Function, Arguments: f.Input}
	if t.Call.With != nil {
		a.Arguments = with
	}
	return a, nil
}

// authenticated puts the policies of use.authentications where a call refers to them.
func (m *machine) authenticated(with map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range with {
		object, isObject := value.(map[string]any)
		switch {
		case name == "authentication":
			var policy string
			if isObject {
				policy, _ = object["use"].(string)
			} else {
				policy, _ = value.(string)
			}
			if known, ok := m.doc.Use.Authentications[policy]; ok {
				value = known
			}
		case isObject && slices.Contains([]string{"endpoint", "document", "proto", "service"}, name):
			value = m.authenticated(object)
		}
		out[name] = value
	}
	return out
}

// secretPolicies puts the values of secrets where policies name one by use.
func (m *machine) secretPolicies(value map[string]any) *Error {
	for name, v := range value {
		object, ok := v.(map[string]any)
		if !ok || name == "body" || name == "arguments" || name == "parameters" {
			continue
		}
		secret, use := object["use"].(string)
		if !use || !slices.Contains([]string{"basic", "bearer", "oauth2"}, name) {
			if err := m.secretPolicies(object); err != nil {
				return err
			}
			continue
		}
		content, ok := m.facts.Secrets[secret].(map[string]any)
		if !ok {
			return NewError(Authorization, "the secret %q is not in use.secrets, or it cannot be read", secret)
		}
		value[name] = content
	}
	return nil
}

// event fills in what every CloudEvent has. It is the same whenever it is made again.
func (m *machine) event(event map[string]any, f *Frame) map[string]any {
	out := map[string]any{"specversion": "1.0", "id": m.key(f), "time": f.StartedAt.UTC().Format(time.RFC3339Nano)}
	maps.Copy(out, event)
	return out
}
