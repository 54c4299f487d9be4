// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
)

// Error is a problem of RFC 7807, as the DSL has them.
type Error struct {
	Type   string `json:"type"`
	Status int    `json:"status"`
	Title  string `json:"title,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Instance is the reference of the task that it came from.
	Instance string `json:"instance,omitempty"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s (%d): %s: %s", e.Type, e.Status, e.Title, e.Detail)
}

// Standard is a type of errors of the DSL; its value is the last part of the URI.
type Standard string

// Standard types.
const (
	Configuration  Standard = "configuration"
	Validation     Standard = "validation"
	Expression     Standard = "expression"
	Authentication Standard = "authentication"
	Authorization  Standard = "authorization"
	Timeout        Standard = "timeout"
	Communication  Standard = "communication"
	Runtime        Standard = "runtime"
)

const standardTypes = "https://serverlessworkflow.io/spec/1.0.0/errors/"

// formerTypes is how the URIs began before version 1.0.0; documents have them still.
const formerTypes = "https://serverlessworkflow.io/dsl/errors/types/"

// NewError returns an error of a standard type, with the status that such an error has by default.
func NewError(t Standard, format string, args ...any) *Error {
	status := http.StatusBadRequest
	switch t {
	case Authentication:
		status = http.StatusUnauthorized
	case Authorization:
		status = http.StatusForbidden
	case Timeout:
		status = http.StatusRequestTimeout
	case Communication, Runtime:
		status = http.StatusInternalServerError
	}
	title := strings.ToUpper(string(t[:1])) + string(t[1:]) + " Error"
	return &Error{Type: standardTypes + string(t), Status: status, Title: title, Detail: fmt.Sprintf(format, args...)}
}

// Of tells whether an error is of a standard type.
func (e *Error) Of(t Standard) bool { return e.Type == standardTypes+string(t) }

// object is how expressions see the error.
func (e *Error) object() map[string]any {
	o := map[string]any{"type": e.Type, "status": e.Status}
	for name, value := range map[string]string{"title": e.Title, "detail": e.Detail, "instance": e.Instance} {
		if value != "" {
			o[name] = value
		}
	}
	return o
}

// matches tells whether an error has all that a filter names.
func (e *Error) matches(filter map[string]any) bool {
	object := e.object()
	for name, want := range filter {
		got := object[name]
		switch name {
		case "details":
			got = object["detail"]
		case "type":
			if s, ok := want.(string); ok && strings.HasPrefix(s, formerTypes) {
				want = standardTypes + strings.TrimPrefix(s, formerTypes)
			}
		}
		if !reflect.DeepEqual(got, want) {
			return false
		}
	}
	return true
}
