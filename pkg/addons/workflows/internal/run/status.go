// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/json"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

const (
	// MaxInputBytes bounds the input of a run.
	MaxInputBytes = 512 << 10
	// MaxOutputBytes bounds its output.
	MaxOutputBytes = 512 << 10
	// historyLength is how many tasks the status has.
	historyLength = 50
)

// tell writes into a status what a turn has come to, all but the journal; log are the tasks that ended since it was written.
func tell(run *workflowsv1alpha1.WorkflowRun, s *engine.State, turn engine.Turn, log []workflowsv1alpha1.TaskRecord) {
	status := &run.Status
	start := metav1.NewMicroTime(s.StartedAt)
	status.StartTime, status.Steps, status.Task = &start, int32(s.Steps), turn.Current
	status.History = latest(append(status.History, log...))
	condition := metav1.Condition{
		Type: workflowsv1alpha1.ConditionSucceeded, Status: metav1.ConditionUnknown, Reason: string(workflowsv1alpha1.PhaseRunning),
		Message: "The run is on its way.", ObservedGeneration: run.Generation,
	}
	switch {
	case s.End != nil:
		end(status, s.End, &condition)
	case len(turn.Actions) == 0 && !turn.Again:
		status.Phase = workflowsv1alpha1.PhaseWaiting
	default:
		status.Phase = workflowsv1alpha1.PhaseRunning
	}
	meta.SetStatusCondition(&status.Conditions, condition)
}

// recordsOf tells of tasks that came to an end as a status does.
func recordsOf(entries []engine.Entry) []workflowsv1alpha1.TaskRecord {
	var out []workflowsv1alpha1.TaskRecord
	for _, e := range entries {
		record := workflowsv1alpha1.TaskRecord{
			Task: e.Reference, Outcome: e.Outcome,
			StartTime: metav1.NewMicroTime(e.StartedAt), EndTime: metav1.NewMicroTime(e.EndedAt),
		}
		if e.Error != nil {
			record.Message = shorten(e.Error.Error())
		}
		out = append(out, record)
	}
	return out
}

// latest returns as many of the last tasks as a status has.
func latest(tasks []workflowsv1alpha1.TaskRecord) []workflowsv1alpha1.TaskRecord {
	return tasks[max(0, len(tasks)-historyLength):]
}

// end writes into a status how a run came out.
func end(status *workflowsv1alpha1.WorkflowRunStatus, e *engine.End, condition *metav1.Condition) {
	at := metav1.NewMicroTime(e.At)
	status.EndTime = &at
	problem := e.Error
	if problem == nil {
		text, err := json.Marshal(e.Output)
		switch {
		case err != nil:
			problem = engine.NewError(engine.Runtime, "the output is not JSON: %v", err)
		case len(text) > MaxOutputBytes:
			problem = engine.NewError(engine.Runtime, "the output has %d bytes, and the limit is %d: choose by output.as what is needed of it",
				len(text), MaxOutputBytes)
		default:
			status.Phase, status.Output = workflowsv1alpha1.PhaseCompleted, &apiextensionsv1.JSON{Raw: text}
			condition.Status, condition.Reason = metav1.ConditionTrue, string(workflowsv1alpha1.PhaseCompleted)
			condition.Message = fmt.Sprintf("The run completed after %v and %d steps.", e.At.Sub(status.StartTime.Time).Round(time.Millisecond), status.Steps)
			return
		}
	}
	status.Phase = workflowsv1alpha1.PhaseFaulted
	status.Error = &workflowsv1alpha1.Problem{
		Type: problem.Type, Status: int32(problem.Status), Title: problem.Title, Detail: shorten(problem.Detail), Instance: problem.Instance,
	}
	condition.Status, condition.Reason = metav1.ConditionFalse, Reason(problem)
	condition.Message = shorten(fmt.Sprintf("%s at %s: %s", problem.Title, problem.Instance, problem.Detail))
}

// Reason is the reason of the condition of a run that faulted.
func Reason(problem *engine.Error) string {
	switch {
	case problem.Title == engine.StepLimit:
		return "StepLimit"
	case problem.Of(engine.Timeout):
		return "Timeout"
	case problem.Of(engine.Validation):
		return "Invalid"
	case problem.Of(engine.Configuration):
		return "Misconfigured"
	}
	return string(workflowsv1alpha1.PhaseFaulted)
}

// shorten keeps messages as short as conditions and events may be.
func shorten(message string) string {
	const longest = 900
	if len(message) > longest {
		return message[:longest] + "…"
	}
	return message
}
