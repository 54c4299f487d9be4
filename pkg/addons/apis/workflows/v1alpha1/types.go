// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workflow is a definition of what is done in which order, in the Serverless Workflow DSL 1.0. It does nothing by itself: a
// WorkflowRun runs it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=wf,categories=minik8s
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Tasks",type=integer,JSONPath=`.status.tasks`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Workflow struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the document of the DSL, with document, do, use, input, output and timeout, as
	// https://github.com/serverlessworkflow/specification says; or it has only the field definition, with the document in it, as an
	// object or as text in YAML or JSON. The condition Ready says what is wrong with it.
	//
	// +kubebuilder:validation:Type=object
	// +required
	Spec apiextensionsv1.JSON `json:"spec"`
	// Status is what was found out about the document.
	// +optional
	Status WorkflowStatus `json:"status,omitempty"`
}

// ConditionReady says of a Workflow whether it can be run.
const ConditionReady = "Ready"

// WorkflowStatus is what was found out about a document.
type WorkflowStatus struct {
	// ObservedGeneration is the generation that the rest speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Version is that of the document.
	// +optional
	Version string `json:"version,omitempty"`
	// Tasks is how many tasks the document has, those within others included.
	// +optional
	Tasks int32 `json:"tasks,omitempty"`
	// Conditions has Ready: whether the document is valid; if not, the message has the paths of the fields that are not.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkflowList is a list of Workflows.
//
// +kubebuilder:object:root=true
type WorkflowList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workflow `json:"items"`
}

// Phase is how far a run has come.
//
// +kubebuilder:validation:Enum=Pending;Running;Waiting;Completed;Faulted
type Phase string

// Phases of a run. The last two are its end.
const (
	// PhasePending has not begun.
	PhasePending Phase = "Pending"
	// PhaseRunning has a task that is going on.
	PhaseRunning Phase = "Running"
	// PhaseWaiting waits for a time or an event.
	PhaseWaiting Phase = "Waiting"
	// PhaseCompleted came to its end.
	PhaseCompleted Phase = "Completed"
	// PhaseFaulted ended with an error.
	PhaseFaulted Phase = "Faulted"
)

// Finished tells whether a run is at its end.
func (p Phase) Finished() bool { return p == PhaseCompleted || p == PhaseFaulted }

// WorkflowRun is one run of a workflow. What has been done is kept in its status, so that it goes on where it was when the process
// that runs it is killed. A task whose result was not written down yet is done again: tasks are done at least once. Deleting a run
// cancels it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=wfr,categories=minik8s
// +kubebuilder:printcolumn:name="Workflow",type=string,JSONPath=`.spec.workflow`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Task",type=string,JSONPath=`.status.task`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Steps",type=integer,priority=1,JSONPath=`.status.steps`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Succeeded")].message`
type WorkflowRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is run, with what input.
	// +required
	Spec WorkflowRunSpec `json:"spec"`
	// Status says how far it has come.
	// +optional
	Status WorkflowRunStatus `json:"status,omitempty"`
}

// WorkflowRunSpec says what is run, with what input.
//
// +kubebuilder:validation:XValidation:rule="has(self.workflow) == has(oldSelf.workflow) && (!has(self.workflow) || self.workflow == oldSelf.workflow)",message="workflow cannot be changed: make another run"
type WorkflowRunSpec struct {
	// Workflow is the name of a Workflow of the same namespace. The run keeps to the document that the Workflow has when it begins.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Workflow string `json:"workflow,omitempty"`
	// Definition is a document of the Serverless Workflow DSL instead of a Workflow's: an object, or text in YAML or JSON.
	// +optional
	Definition *apiextensionsv1.JSON `json:"definition,omitempty"`
	// Input is what the workflow works on, at most 512 KiB; null by default.
	// +optional
	Input *apiextensionsv1.JSON `json:"input,omitempty"`
	// MaxSteps ends a run that loops without an end: it faults when it has begun that many tasks and rounds of loops.
	//
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxSteps int32 `json:"maxSteps,omitempty"`
	// TTLSecondsAfterFinished is how many seconds after its end the run is deleted; it stays by default.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// Events were sent to the run: CloudEvents in their JSON format. Tasks that listen take those that match, from the first on; so a
	// run does not miss one that comes early. Add to the end, and leave those that are there. What tasks emit is added to
	// all runs of the namespace that listen somewhere and are not at their end.
	//
	// +optional
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Events []apiextensionsv1.JSON `json:"events,omitempty"`
}

// ConditionSucceeded says of a WorkflowRun whether it came to a good end; it is Unknown until the end.
const ConditionSucceeded = "Succeeded"

// WorkflowRunStatus says how far a run has come.
type WorkflowRunStatus struct {
	// Phase is Pending, Running, Waiting (for a time or an event), Completed or Faulted.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Task is the reference of a task that is going on, such as /do/2/payOrder: a JSON pointer into the document.
	// +optional
	Task string `json:"task,omitempty"`
	// Steps is how many tasks and rounds of loops have begun.
	// +optional
	Steps int32 `json:"steps,omitempty"`
	// StartTime is when it began.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`
	// EndTime is when it ended.
	// +optional
	EndTime *metav1.MicroTime `json:"endTime,omitempty"`
	// Output is what a completed run came to.
	// +optional
	Output *apiextensionsv1.JSON `json:"output,omitempty"`
	// Error is why a run faulted.
	// +optional
	Error *Problem `json:"error,omitempty"`
	// Definition is the document that the run keeps to, if it is a Workflow's.
	// +optional
	Definition *apiextensionsv1.JSON `json:"definition,omitempty"`
	// Journal is what a run goes on from. It is for its controller only.
	// +optional
	Journal *Journal `json:"journal,omitempty"`
	// Listens says whether the document has a task that listens.
	// +optional
	Listens *bool `json:"listens,omitempty"`
	// History has the tasks that came to an end, the last 50.
	//
	// +optional
	// +listType=atomic
	History []TaskRecord `json:"history,omitempty"`
	// Conditions has Succeeded: Unknown until the end, then True, or False with what was wrong.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Problem is an error as RFC 7807 has it.
type Problem struct {
	// Type is a URI that tells what kind of error it is.
	Type string `json:"type"`
	// Status is a status as of HTTP.
	Status int32 `json:"status"`
	// Title says it in short.
	// +optional
	Title string `json:"title,omitempty"`
	// Detail says it in full.
	// +optional
	Detail string `json:"detail,omitempty"`
	// Instance is the reference of the task that the error came from.
	// +optional
	Instance string `json:"instance,omitempty"`
}

// Journal is what a run goes on from: the state of its engine, here or, if it is large, compressed in ConfigMaps.
type Journal struct {
	// Revision counts how often it was written.
	Revision int64 `json:"revision"`
	// State is the state.
	// +optional
	State *apiextensionsv1.JSON `json:"state,omitempty"`
	// ConfigMaps have the state, compressed by gzip, in this order.
	// +optional
	// +listType=atomic
	ConfigMaps []string `json:"configMaps,omitempty"`
}

// TaskRecord is a task that came to an end.
type TaskRecord struct {
	// Task is its reference.
	Task string `json:"task"`
	// Outcome is Completed, Faulted, Skipped (its if was not true) or Retrying (a try that tries again).
	Outcome string `json:"outcome"`
	// StartTime is when it began.
	StartTime metav1.MicroTime `json:"startTime"`
	// EndTime is when it ended.
	EndTime metav1.MicroTime `json:"endTime"`
	// Message is the error, if there is one.
	// +optional
	Message string `json:"message,omitempty"`
}

// WorkflowRunList is a list of WorkflowRuns.
//
// +kubebuilder:object:root=true
type WorkflowRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkflowRun `json:"items"`
}
