// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package expression evaluates the runtime expressions of workflows, which are jq between ${ and }. Touch it when what may be
// written there, or how long it may take, changes.
package expression

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/itchyny/gojq"
)

// Limit is how long one expression may take. It is computed in the process of the controller, which others need as well.
const Limit = 500 * time.Millisecond

// Vars are the arguments of an expression by their names, without the dollar sign.
type Vars map[string]any

// Evaluator evaluates expressions, each of which it compiles once.
type Evaluator struct {
	// Loose is the DSL's mode "loose": strings are taken for expressions without ${ }, and for themselves if they are none.
	Loose bool

	compiled sync.Map // of key to *gojq.Code
}

type key struct{ text, names string }

// Unwrap returns the jq of a text that is an expression with or without ${ } around it.
func Unwrap(text string) string {
	if inner, ok := whole(text); ok {
		return inner
	}
	return text
}

// Check returns what is wrong with the syntax of an expression, with or without ${ } around it.
func Check(text string) error {
	_, err := gojq.Parse(Unwrap(text))
	return err
}

// CheckText returns what is wrong with the expressions in a text that is a value.
func CheckText(text string) error {
	parts, err := split(text)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.code {
			if _, err := gojq.Parse(p.text); err != nil {
				return err
			}
		}
	}
	return nil
}

// Eval evaluates an expression, with or without ${ } around it, on a value. Nothing is null; more than one value is an error.
func (e *Evaluator) Eval(ctx context.Context, text string, on any, vars Vars) (any, error) {
	code, values, err := e.compile(Unwrap(text), vars)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	results := code.RunWithContext(ctx, on, values...)
	value, ok := results.Next()
	if !ok {
		return nil, nil
	}
	if err, failed := value.(error); failed {
		if ctx.Err() != nil && !errors.Is(err, errLarge) {
			return nil, fmt.Errorf("the expression %q takes longer than %v", text, Limit)
		}
		return nil, fmt.Errorf("the expression %q fails: %w", text, err)
	}
	if _, more := results.Next(); more {
		return nil, fmt.Errorf("the expression %q has more than one value: put it in [ ]", text)
	}
	if Weigh(value, MaxBytes) > MaxBytes {
		return nil, fmt.Errorf("the expression %q fails: %w", text, errLarge)
	}
	return value, nil
}

// Condition evaluates an expression as jq does a condition: all but false and null is true.
func (e *Evaluator) Condition(ctx context.Context, text string, on any, vars Vars) (bool, error) {
	value, err := e.Eval(ctx, text, on, vars)
	return err == nil && value != nil && value != false, err
}

// Value evaluates all expressions in the strings of a value. A string that is one expression becomes what that is; one with
// expressions in it stays a string.
func (e *Evaluator) Value(ctx context.Context, value, on any, vars Vars) (any, error) {
	out, err := e.value(ctx, value, on, vars)
	if err == nil && Weigh(out, MaxBytes) > MaxBytes {
		return nil, errLarge
	}
	return out, err
}

func (e *Evaluator) value(ctx context.Context, value, on any, vars Vars) (any, error) {
	switch value := value.(type) {
	case string:
		return e.text(ctx, value, on, vars)
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			v, err := e.value(ctx, item, on, vars)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, item := range value {
			v, err := e.value(ctx, item, on, vars)
			if err != nil {
				return nil, err
			}
			out[name] = v
		}
		return out, nil
	}
	return value, nil
}

func (e *Evaluator) text(ctx context.Context, text string, on any, vars Vars) (any, error) {
	if inner, ok := whole(text); ok {
		return e.Eval(ctx, inner, on, vars)
	}
	if !strings.Contains(text, "${") {
		if e.Loose {
			if value, err := e.Eval(ctx, text, on, vars); err == nil {
				return value, nil
			}
		}
		return text, nil
	}
	parts, err := split(text)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, p := range parts {
		if !p.code {
			out.WriteString(p.text)
			continue
		}
		value, err := e.Eval(ctx, p.text, on, vars)
		if err != nil {
			return nil, err
		}
		encoded, ok := value.(string)
		if !ok {
			written, err := gojq.Marshal(value)
			if err != nil {
				return nil, fmt.Errorf("writing what %q is: %w", p.text, err)
			}
			encoded = string(written)
		}
		out.WriteString(encoded)
		if out.Len() > MaxBytes {
			return nil, errLarge
		}
	}
	return out.String(), nil
}

// compile returns the code of an expression, and the values of vars in its order.
func (e *Evaluator) compile(text string, vars Vars) (*gojq.Code, []any, error) {
	names := slices.Sorted(maps.Keys(vars))
	values := make([]any, len(names))
	for i, name := range names {
		values[i] = vars[name]
		names[i] = "$" + name
	}
	k := key{text, strings.Join(names, " ")}
	if code, ok := e.compiled.Load(k); ok {
		return code.(*gojq.Code), values, nil
	}
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("the expression %q is not jq: %w", text, err)
	}
	if query, err = bounded(query); err != nil {
		return nil, nil, err
	}
	code, err := gojq.Compile(query, append(functions(), gojq.WithVariables(names))...)
	if err != nil {
		return nil, nil, fmt.Errorf("the expression %q: %w", text, err)
	}
	e.compiled.Store(k, code)
	return code, values, nil
}

type part struct {
	text string
	code bool
}

// whole returns what is between ${ and } if that is all of a text, but for space.
func whole(text string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	if !strings.HasPrefix(trimmed, "${") {
		return "", false
	}
	parts, err := split(trimmed)
	if err != nil || len(parts) != 1 {
		return "", false
	}
	return parts[0].text, true
}

// split divides a text into what is between ${ and } and what is not.
func split(text string) ([]part, error) {
	var parts []part
	for text != "" {
		begin := strings.Index(text, "${")
		if begin < 0 {
			return append(parts, part{text: text}), nil
		}
		if begin > 0 {
			parts = append(parts, part{text: text[:begin]})
		}
		end := closing(text[begin+2:])
		if end < 0 {
			return nil, errors.New("there is no } for a ${")
		}
		parts = append(parts, part{text: text[begin+2 : begin+2+end], code: true})
		text = text[begin+2+end+1:]
	}
	return parts, nil
}

// closing returns where the brace is that ends jq. Braces in its strings do not count, and its strings have jq in \( ) again.
func closing(text string) int {
	var open []byte
	top := func() byte {
		if len(open) == 0 {
			return 0
		}
		return open[len(open)-1]
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if top() == '"' {
			switch {
			case c == '\\' && i+1 < len(text):
				i++
				if text[i] == '(' {
					open = append(open, '(')
				}
			case c == '"':
				open = open[:len(open)-1]
			}
			continue
		}
		switch c {
		case '"', '{', '(':
			open = append(open, c)
		case ')':
			if top() == '(' {
				open = open[:len(open)-1]
			}
		case '}':
			if top() == '{' {
				open = open[:len(open)-1]
				continue
			}
			return i
		}
	}
	return -1
}
