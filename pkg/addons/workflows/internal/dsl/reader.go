// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package dsl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/expression"
)

// reader takes values out of a document, and collects complaints. Its methods return zero values for what is not there or not right.
type reader struct {
	problems field.ErrorList
	workflow *Workflow
	// later has checks that need all of the document.
	later []func()
}

// node is a value of the document, and where it is.
type node struct {
	value any
	path  *field.Path
}

func (r *reader) invalid(n node, format string, args ...any) {
	value := n.value
	switch value.(type) {
	case map[string]any, []any:
		value = field.OmitValueType{}
	}
	r.problems = append(r.problems, field.Invalid(n.path, value, fmt.Sprintf(format, args...)))
}

// object returns the properties of an object that has none but those named; without names, any.
func (r *reader) object(n node, properties ...string) map[string]any {
	object, ok := n.value.(map[string]any)
	if !ok {
		r.problems = append(r.problems, field.TypeInvalid(n.path, n.value, "must be an object"))
		return nil
	}
	if len(properties) > 0 {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if !slices.Contains(properties, name) {
				r.problems = append(r.problems, field.NotSupported(n.path.Child(name), name, properties))
			}
		}
	}
	return object
}

// child returns a property; ok says whether it is there.
func (r *reader) child(n node, name string) (node, bool) {
	object, _ := n.value.(map[string]any)
	value, ok := object[name]
	return node{value, n.path.Child(name)}, ok && value != nil
}

// need returns a property that must be there.
func (r *reader) need(n node, name string) (node, bool) {
	c, ok := r.child(n, name)
	if _, object := n.value.(map[string]any); !ok && object {
		r.problems = append(r.problems, field.Required(c.path, ""))
	}
	return c, ok
}

// text returns a property that is a string, or instead of it a default.
func (r *reader) text(n node, name, instead string) string {
	c, ok := r.child(n, name)
	if !ok {
		return instead
	}
	s, ok := c.value.(string)
	if !ok {
		r.problems = append(r.problems, field.TypeInvalid(c.path, c.value, "must be a string"))
	}
	return s
}

// oneOf is text with one of some values.
func (r *reader) oneOf(n node, name, instead string, allowed ...string) string {
	s := r.text(n, name, instead)
	if s != instead && !slices.Contains(allowed, s) {
		c, _ := r.child(n, name)
		r.problems = append(r.problems, field.NotSupported(c.path, s, allowed))
	}
	return s
}

func (r *reader) boolean(n node, name string, instead bool) bool {
	c, ok := r.child(n, name)
	if !ok {
		return instead
	}
	b, ok := c.value.(bool)
	if !ok {
		r.problems = append(r.problems, field.TypeInvalid(c.path, c.value, "must be true or false"))
	}
	return b
}

// expression returns a property that is an expression.
func (r *reader) expression(n node, name string) string {
	s := r.text(n, name, "")
	if s != "" {
		if err := expression.Check(s); err != nil {
			c, _ := r.child(n, name)
			r.invalid(c, "not a jq expression: %v", err)
		}
	}
	return s
}

// template returns a value with expressions in its strings.
func (r *reader) template(n node) any {
	switch value := n.value.(type) {
	case string:
		if err := expression.CheckText(value); err != nil {
			r.invalid(n, "not a jq expression: %v", err)
		}
	case []any:
		for i, item := range value {
			r.template(node{item, n.path.Index(i)})
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			r.template(node{value[name], n.path.Child(name)})
		}
	}
	return n.value
}

// object of templates.
func (r *reader) templates(n node, properties ...string) map[string]any {
	object := r.object(n, properties...)
	r.template(n)
	return object
}

// duration returns a property that is a duration, or an expression of one.
func (r *reader) duration(n node, name string) any {
	c, ok := r.child(n, name)
	if !ok {
		return nil
	}
	if s, text := c.value.(string); text && strings.HasPrefix(strings.TrimSpace(s), "${") {
		return r.template(c)
	}
	if _, err := ParseDuration(c.value); err != nil {
		r.invalid(c, "%v", err)
	}
	return c.value
}

// data reads input, output and export, whose expression is the property from or as.
func (r *reader) data(n node, name, property string) Data {
	c, ok := r.child(n, name)
	if !ok {
		return Data{}
	}
	r.object(c, "schema", property)
	var d Data
	if schema, ok := r.child(c, "schema"); ok {
		r.object(schema, "format", "document", "resource")
		r.oneOf(schema, "format", "json", "json")
		if resource, ok := r.child(schema, "resource"); ok {
			r.invalid(resource, "schemas from elsewhere are not supported: put it into document")
		} else if document, ok := r.need(schema, "document"); ok {
			d.Schema = r.object(document)
			if _, err := compileSchema(d.Schema); d.Schema != nil && err != nil {
				r.invalid(document, "not a JSON schema: %v", err)
			}
		}
	}
	if e, ok := r.child(c, property); ok {
		switch e.value.(type) {
		case string:
			d.Expression = r.expression(c, property)
		case map[string]any:
			d.Expression = r.template(e)
		default:
			r.problems = append(r.problems, field.TypeInvalid(e.path, e.value, "must be an expression, or an object of such"))
		}
	}
	return d
}

// timeout reads the property timeout: an object, or the name of one in use.timeouts.
func (r *reader) timeout(n node) *Timeout {
	c, ok := r.child(n, "timeout")
	if !ok {
		return nil
	}
	if name, ok := c.value.(string); ok {
		t := &Timeout{}
		r.later = append(r.later, func() {
			if known := r.workflow.Use.Timeouts[name]; known != nil {
				*t = *known
			} else {
				r.problems = append(r.problems, field.NotFound(c.path, name))
			}
		})
		return t
	}
	return r.timeoutObject(c)
}

func (r *reader) timeoutObject(n node) *Timeout {
	r.object(n, "after")
	r.need(n, "after")
	return &Timeout{After: r.duration(n, "after")}
}
