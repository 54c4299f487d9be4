// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine decides what a run of a workflow does next: from its document, its input, and a State that says what has
// happened. It touches nothing and knows no clock but the one that it is given, so the same state has the same continuation,
// whoever computes it and however often. Touch it to change what tasks mean.
//
// A State is a tree of the tasks that are going on, and of nothing that is over, so that it does not grow with the length of a run.
// Advance takes every task as far as it goes by itself: to a call, which somebody makes and whose result comes by Resolve; to a
// time; to an event; or to the end.
package engine

import (
	"time"
)

// Version is what $runtime says.
const Version = "1.0"

// State is a run that has begun, as JSON between two steps.
type State struct {
	// ID is unique among all runs; keys of calls are made of it.
	ID        string    `json:"id"`
	StartedAt time.Time `json:"startedAt"`
	// Input is that of the workflow, transformed; the context until a task exports another.
	Input    any  `json:"input,omitempty"`
	Context  any  `json:"context,omitempty"`
	Exported bool `json:"exported,omitempty"`
	// Steps counts the tasks that have begun, and the rounds of loops.
	Steps    int        `json:"steps"`
	Deadline *time.Time `json:"deadline,omitempty"`
	// Root is the workflow's list of tasks.
	Root Sequence `json:"root"`
	// Consumed are the keys of events that some listener has taken.
	Consumed []string `json:"consumed,omitempty"`
	// End is how it came out, once it has.
	End *End `json:"end,omitempty"`
}

// End is the outcome of a run: an error, or else an output.
type End struct {
	Output any       `json:"output,omitempty"`
	Error  *Error    `json:"error,omitempty"`
	At     time.Time `json:"at"`
}

// Sequence is a list of tasks on its way.
type Sequence struct {
	List string `json:"list,omitempty"`
	// Next is the position of the child, or of the task that begins next.
	Next  int    `json:"next,omitempty"`
	Data  any    `json:"data,omitempty"`
	Child *Frame `json:"child,omitempty"`
}

// Frame is a task on its way. Which fields beyond Input mean something depends on the task's kind.
type Frame struct {
	// Seq is unique in the run: with the run's ID it is the key of a call.
	Seq       int        `json:"seq"`
	Reference string     `json:"ref"`
	StartedAt time.Time  `json:"startedAt"`
	Deadline  *time.Time `json:"deadline,omitempty"`
	// Begun says that there is an Input.
	Begun bool `json:"begun,omitempty"`
	// Raw is the input before, Input after input.from.
	Raw   any `json:"raw,omitempty"`
	Input any `json:"input,omitempty"`

	// Body is the list of tasks that runs, of do, for, try and listen.
	Body *Sequence `json:"body,omitempty"`
	// Branches are those of a fork; of call, the function's task.
	Branches []Branch `json:"branches,omitempty"`
	// Items and Index are those of a loop, or the events of listen that have come.
	Items []any `json:"items,omitempty"`
	Index int   `json:"index,omitempty"`
	// Try is how it stands with attempts.
	Try *Attempts `json:"try,omitempty"`
	// Listen is how it stands with events.
	Listen *Heard `json:"listen,omitempty"`
	// Wake is when a wait is over.
	Wake *time.Time `json:"wake,omitempty"`
	// Result is that of a call.
	Result *Result `json:"result,omitempty"`
}

// Branch of a fork: one that is on its way has a frame, one that is over is Done.
type Branch struct {
	Frame  *Frame `json:"frame,omitempty"`
	Done   bool   `json:"done,omitempty"`
	Output any    `json:"output,omitempty"`
	Error  *Error `json:"error,omitempty"`
}

// Attempts are those of try.
type Attempts struct {
	FirstAt   time.Time  `json:"firstAt"`
	Failed    int        `json:"failed,omitempty"`
	RetryAt   *time.Time `json:"retryAt,omitempty"`
	Deadline  *time.Time `json:"deadline,omitempty"`
	Caught    *Error     `json:"caught,omitempty"`
	Exhausted bool       `json:"exhausted,omitempty"`
}

// Heard is what listen has of events.
type Heard struct {
	// Matched says for each filter of all whether it has its event; UntilMatched for those of until.
	Matched      []bool         `json:"matched,omitempty"`
	UntilMatched []bool         `json:"untilMatched,omitempty"`
	Correlations map[string]any `json:"correlations,omitempty"`
	Complete     bool           `json:"complete,omitempty"`
	Outputs      []any          `json:"outputs,omitempty"`
}

// Result of a call: an error, or else an output.
type Result struct {
	Output any    `json:"output,omitempty"`
	Error  *Error `json:"error,omitempty"`
}

// ActionKind says what is to be done.
type ActionKind string

// Kinds of actions.
const (
	// ActionCall calls by a protocol: Name is http, openapi or grpc, Arguments are its.
	ActionCall ActionKind = "call"
	// ActionFunction calls the Function of the name Name with Arguments.
	ActionFunction ActionKind = "function"
	// ActionEmit publishes the event Arguments.
	ActionEmit ActionKind = "emit"
	// ActionContainer and ActionWorkflow run what Arguments say.
	ActionContainer ActionKind = "container"
	ActionWorkflow  ActionKind = "workflow"
)

// Action is something outside that a task waits for. It may be asked for several times: Key is always the same then.
type Action struct {
	Seq       int
	Key       string
	Reference string
	Kind      ActionKind
	Name      string
	Arguments any
	// Input is what URI templates are filled with.
	Input any
	// Run has how processes are run.
	Await  bool
	Return string
	// Deadline is the earliest of those of the tasks around it; zero is none.
	Deadline time.Time
}

// Facts are what a run sees of the world.
type Facts struct {
	Now time.Time
	// Input is the workflow's, before it is transformed.
	Input any
	// Events are all that were sent to the run, as objects of CloudEvents, in the order in which they came.
	Events []map[string]any
	// Secrets are values by name of the secret and key.
	Secrets map[string]any
	// MaxSteps ends runs that loop for ever.
	MaxSteps int
	// MaxBytes ends runs whose tasks come to more data than that, roughly; 0 is no limit.
	MaxBytes int
	// Batch is how many tasks may be gone through in one Advance.
	Batch int
}

// Turn is what came of an Advance.
type Turn struct {
	// Actions are all that is to be going on outside now; what is not named here is wanted no more.
	Actions []Action
	// Wake is when to advance at the latest; zero if no time matters.
	Wake time.Time
	// Again says that there is more to do at once, as soon as the state is safe.
	Again bool
	// Listening says that events matter.
	Listening bool
	// Log has the tasks that came to an end, in that order.
	Log []Entry
	// Current is the reference of a task that is going on.
	Current string
}

// Entry is a task that came to an end.
type Entry struct {
	Seq       int
	Reference string
	StartedAt time.Time
	EndedAt   time.Time
	// Outcome is Completed, Faulted, Skipped or Retrying.
	Outcome string
	Error   *Error
}

// Outcomes of tasks.
const (
	Completed = "Completed"
	Faulted   = "Faulted"
	Skipped   = "Skipped"
	Retrying  = "Retrying"
)
