// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"strings"
)

// Code is the outcome of an extension point.
type Code int

const (
	// Success means: the pod may go on.
	Success Code = iota
	// Error means: an internal failure, the pod is retried after a back-off.
	Error
	// Unschedulable means: the pod does not fit now; removing other pods may help.
	Unschedulable
	// UnschedulableAndUnresolvable means: the pod does not fit and preemption is no help.
	UnschedulableAndUnresolvable
	// Skip means: the plugin has nothing to say on this pod.
	Skip
)

func (c Code) String() string {
	switch c {
	case Success:
		return "Success"
	case Error:
		return "Error"
	case Unschedulable:
		return "Unschedulable"
	case UnschedulableAndUnresolvable:
		return "UnschedulableAndUnresolvable"
	case Skip:
		return "Skip"
	}
	return fmt.Sprintf("Code(%d)", int(c))
}

// Status is a plugin's answer. A nil *Status is a success. Reasons are shown to
// users in conditions and events.
type Status struct {
	code    Code
	reasons []string
	err     error
	plugin  string
}

// NewStatus returns a status with reasons meant for the user.
func NewStatus(code Code, reasons ...string) *Status {
	s := &Status{code: code, reasons: reasons}
	if code == Error {
		s.err = fmt.Errorf("%s", strings.Join(reasons, ", "))
	}
	return s
}

// AsStatus wraps an internal failure; nil gives a success.
func AsStatus(err error) *Status {
	if err == nil {
		return nil
	}
	return &Status{code: Error, reasons: []string{err.Error()}, err: err}
}

// Code returns the outcome.
func (s *Status) Code() Code {
	if s == nil {
		return Success
	}
	return s.code
}

// Reasons returns the user-facing reasons.
func (s *Status) Reasons() []string {
	if s == nil {
		return nil
	}
	return s.reasons
}

// Message joins the reasons.
func (s *Status) Message() string { return strings.Join(s.Reasons(), ", ") }

// Plugin names the plugin that answered; empty if none did.
func (s *Status) Plugin() string {
	if s == nil {
		return ""
	}
	return s.plugin
}

// WithPlugin returns a copy that names its plugin.
func (s *Status) WithPlugin(name string) *Status {
	if s == nil || s.plugin == name {
		return s
	}
	c := *s
	c.plugin = name
	return &c
}

// IsSuccess tells whether the pod may go on.
func (s *Status) IsSuccess() bool { return s.Code() == Success }

// IsSkip tells whether the plugin opted out.
func (s *Status) IsSkip() bool { return s.Code() == Skip }

// IsRejected tells whether the pod does not fit, as opposed to a failure.
func (s *Status) IsRejected() bool {
	c := s.Code()
	return c == Unschedulable || c == UnschedulableAndUnresolvable
}

// Err returns the status as an error, nil on success.
func (s *Status) Err() error {
	if s.IsSuccess() {
		return nil
	}
	if s.err != nil {
		return s.err
	}
	return fmt.Errorf("%s", s.Message())
}
