// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package schema reads the types of objects from OpenAPI v3 documents and makes up values for them. Touch it when a field
// gets no value, or one that teaches nothing.
package schema

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Type is the part of an OpenAPI schema that says what a value looks like.
type Type struct {
	Ref         string           `json:"$ref"`
	AllOf       []*Type          `json:"allOf"`
	OneOf       []*Type          `json:"oneOf"`
	Type        string           `json:"type"`
	Format      string           `json:"format"`
	Properties  map[string]*Type `json:"properties"`
	Items       *Type            `json:"items"`
	Additional  *Additional      `json:"additionalProperties"`
	Enum        []any            `json:"enum"`
	Required    []string         `json:"required"`
	IntOrString bool             `json:"x-kubernetes-int-or-string"`
	Kinds       []Kind           `json:"x-kubernetes-group-version-kind"`
}

// Kind is a group, version and kind.
type Kind struct{ Group, Version, Kind string }

// Additional is the type of a map's values; OpenAPI also allows a bool, which says nothing.
type Additional struct{ *Type }

// UnmarshalJSON implements json.Unmarshaler.
func (a *Additional) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return nil
	}
	return json.Unmarshal(data, &a.Type)
}

// Set holds the types of all documents.
type Set struct {
	types map[string]*Type
	kinds map[Kind]*Type
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{types: map[string]*Type{}, kinds: map[Kind]*Type{}} }

// Add takes in the types of one OpenAPI v3 document.
func (s *Set) Add(document []byte) error {
	var d struct {
		Components struct {
			Schemas map[string]*Type `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return fmt.Errorf("reading an OpenAPI document: %w", err)
	}
	for name, t := range d.Components.Schemas {
		s.types[name] = t
		for _, k := range t.Kinds {
			s.kinds[k] = t
		}
	}
	return nil
}

// Kind returns the type of a kind, nil if no document has it.
func (s *Set) Kind(k Kind) *Type { return s.kinds[k] }

// Resolve follows references to the type that they mean; nil stays nil.
func (s *Set) Resolve(t *Type) *Type {
	for t != nil {
		switch {
		case t.Ref != "":
			t = s.types[t.Ref[strings.LastIndex(t.Ref, "/")+1:]]
		case len(t.AllOf) == 1 && t.Type == "" && t.Properties == nil:
			t = t.AllOf[0]
		default:
			return t
		}
	}
	return nil
}

// Quantity tells whether values are quantities: OpenAPI calls them strings.
func (s *Set) Quantity(t *Type) bool {
	for t != nil && len(t.AllOf) == 1 {
		t = t.AllOf[0]
	}
	return t != nil && strings.HasSuffix(t.Ref, ".Quantity")
}

// Fill makes up a value with every field, down to depth levels; deeper fields are left out. Values fit the types, but make
// little sense.
func (s *Set) Fill(t *Type, depth int) any {
	if s.Quantity(t) {
		return "1"
	}
	t = s.Resolve(t)
	switch {
	case t == nil:
		return "any"
	case len(t.Enum) > 0:
		return t.Enum[0]
	case t.IntOrString || len(t.OneOf) > 0:
		return int64(1)
	case t.Properties != nil:
		object := map[string]any{}
		if depth > 0 {
			for name, p := range t.Properties {
				object[name] = s.Fill(p, depth-1)
			}
		}
		return object
	case t.Items != nil:
		if depth == 0 {
			return []any{}
		}
		return []any{s.Fill(t.Items, depth-1)}
	case t.Additional != nil && t.Additional.Type != nil:
		return map[string]any{"key": s.Fill(t.Additional.Type, depth-1)}
	case t.Type == "object":
		return map[string]any{}
	case t.Type == "integer":
		return int64(1)
	case t.Type == "number":
		return 1.5
	case t.Type == "boolean":
		return true
	case t.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case t.Format == "byte":
		return "dmFsdWU="
	}
	return "value"
}
