// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package dsl is the language of workflows: the Serverless Workflow DSL 1.0 as types, read from a document with the path of the
// field in every complaint. Touch it when the specification gets a property or a task. What is here follows dsl-reference.md of
// github.com/serverlessworkflow/specification.
package dsl

import (
	"time"

	"minik8s.io/minik8s/pkg/addons/workflows/internal/expression"
)

// Workflow is a document that was found to be valid.
type Workflow struct {
	// Source is the document as it was read: what expressions see as $workflow.definition.
	Source map[string]any
	// Name and Version are those of the property document.
	Name, Version string
	Input, Output Data
	Timeout       *Timeout
	Use           Use
	// Tasks has every task by its reference, a JSON pointer into the document.
	Tasks map[string]*Task
	// Lists has every list of tasks by its reference; that of the workflow itself is /do.
	Lists map[string][]*Task
	// Expressions evaluates the document's expressions, in its mode.
	Expressions *expression.Evaluator
}

// Use is what tasks refer to by name.
type Use struct {
	Authentications map[string]map[string]any
	Errors          map[string]map[string]any
	// Functions are references of tasks.
	Functions map[string]string
	Retries   map[string]*Retry
	Timeouts  map[string]*Timeout
	Secrets   []string
}

// Data is what may be said of an input, an output or an export.
type Data struct {
	// Schema is a JSON schema, or nil.
	Schema map[string]any
	// Expression is that of from or as: a string, or an object with expressions in it; nil leaves the data as it is.
	Expression any
}

// Timeout ends a workflow or a task. After is a duration, or an expression of one.
type Timeout struct{ After any }

// Kind is what a task does: the property that it is told by.
type Kind string

// All kinds of tasks.
const (
	KindCall   Kind = "call"
	KindDo     Kind = "do"
	KindEmit   Kind = "emit"
	KindFor    Kind = "for"
	KindFork   Kind = "fork"
	KindListen Kind = "listen"
	KindRaise  Kind = "raise"
	KindRun    Kind = "run"
	KindSet    Kind = "set"
	KindSwitch Kind = "switch"
	KindTry    Kind = "try"
	KindWait   Kind = "wait"
)

// Directives of flow; all others are names of tasks.
const (
	Continue = "continue"
	Exit     = "exit"
	End      = "end"
)

// Task is one task. Of the fields below Then, that of its kind is set.
type Task struct {
	Name, Reference       string
	Kind                  Kind
	Definition            map[string]any
	If                    string
	Input, Output, Export Data
	Timeout               *Timeout
	Then                  string

	Call   *Call
	Do     string // the reference of a list
	Emit   map[string]any
	For    *For
	Fork   *Fork
	Listen *Listen
	Raise  map[string]any
	Run    *Run
	Set    any
	Switch []Case
	Try    *Try
	Wait   any
}

// Call calls what is outside. Function is one of the DSL's own (http, grpc, openapi), one of Use.Functions, or a Function of the cluster.
type Call struct {
	Function string
	With     map[string]any
}

// For runs a list of tasks for each item of In.
type For struct {
	Each, At, In, While string
	Do                  string
}

// Fork runs tasks at the same time. If they compete, the first that ends well decides.
type Fork struct {
	Branches string
	Compete  bool
}

// Listen waits for events.
type Listen struct {
	To   Strategy
	Read string
	// Each is what is done with every event; nil if nothing is.
	Each *Each
}

// Each is what is done with an event.
type Each struct {
	Item, At       string
	Do             string
	Output, Export Data
}

// Strategy says which events, one of each filter of All, or any of Any.
type Strategy struct {
	All []Filter
	// Any with Every set and no filter means all events there are.
	Any   []Filter
	Every bool
	// Until is an expression, UntilEvents a strategy that ends listening for any.
	Until       string
	UntilEvents *Strategy
}

// Filter says which events, by their attributes.
type Filter struct {
	With      map[string]any
	Correlate map[string]Correlation
}

// Correlation is a value of an event, which must be as expected; without an expectation, as it was in the first event.
type Correlation struct{ From, Expect string }

// Run runs a process. One of Container, Workflow, Script, Shell is set.
type Run struct {
	Container, Workflow, Script, Shell map[string]any
	Await                              bool
	Return                             string
}

// Case of a switch; without When it is the default.
type Case struct{ Name, When, Then string }

// Try runs a list of tasks, and does something about errors.
type Try struct {
	Do               string
	With             map[string]any
	As               string
	When, ExceptWhen string
	Retry            *Retry
	// Catch is the reference of a list, or empty.
	Catch string
}

// Retry says whether and when tasks are tried again. Durations may be expressions; nil is none.
type Retry struct {
	When, ExceptWhen     string
	Delay                any
	Backoff              string // constant, linear, exponential or empty
	Count                int    // of further attempts; 0 is no limit
	AttemptDuration      any
	Duration             any
	JitterFrom, JitterTo any
}

// MaxDuration is the longest duration; a longer one is a mistake.
const MaxDuration = 100 * 365 * 24 * time.Hour
