// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package definition reads the documents of Workflows and WorkflowRuns, and keeps the condition Ready of Workflows. Touch it to
// change where documents are found, or what is said about them.
package definition

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
)

// MaxBytes is the longest document.
const MaxBytes = 128 << 10

// OfWorkflow reads the document of a Workflow: its spec, or what is in the field definition of that.
func OfWorkflow(spec []byte) (*dsl.Workflow, field.ErrorList) {
	path := field.NewPath("spec")
	if len(spec) > MaxBytes {
		return nil, field.ErrorList{field.TooLong(path, "", MaxBytes)}
	}
	value, err := dsl.Decode(spec)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	object, _ := value.(map[string]any)
	inner, ok := object["definition"]
	if !ok {
		return dsl.Parse(value, path)
	}
	if len(object) > 1 {
		return nil, field.ErrorList{field.Forbidden(path.Child("definition"), "beside other fields: the document is either in spec or in spec.definition")}
	}
	return parse(inner, path.Child("definition"))
}

// OfRun reads the document that is in a WorkflowRun.
func OfRun(definition []byte, path *field.Path) (*dsl.Workflow, field.ErrorList) {
	if len(definition) > MaxBytes {
		return nil, field.ErrorList{field.TooLong(path, "", MaxBytes)}
	}
	value, err := dsl.Decode(definition)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return parse(value, path)
}

func parse(value any, path *field.Path) (*dsl.Workflow, field.ErrorList) {
	if text, ok := value.(string); ok {
		return dsl.ParseText([]byte(text), path)
	}
	return dsl.Parse(value, path)
}

// Reconciler keeps the status of Workflows.
type Reconciler struct {
	Client client.Client
}

// Setup adds the controller of Workflows to a manager.
func Setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("workflow").
		For(&workflowsv1alpha1.Workflow{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&Reconciler{Client: mgr.GetClient()})
}

// Reconcile says in a Workflow's status what is to be said of its document.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var w workflowsv1alpha1.Workflow
	if err := r.Client.Get(ctx, req.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	status := Status(&w)
	if equality.Semantic.DeepEqual(status, w.Status) {
		return ctrl.Result{}, nil
	}
	w.Status = status
	if err := r.Client.Status().Update(ctx, &w); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of the Workflow: %w", err)
	}
	return ctrl.Result{}, nil
}

// Status returns what is to be said of a Workflow.
func Status(w *workflowsv1alpha1.Workflow) workflowsv1alpha1.WorkflowStatus {
	status := *w.Status.DeepCopy()
	status.ObservedGeneration, status.Version, status.Tasks = w.Generation, "", 0
	condition := metav1.Condition{
		Type: workflowsv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Valid", ObservedGeneration: w.Generation,
		Message: "The document is valid.",
	}
	document, problems := OfWorkflow(w.Spec.Raw)
	if len(problems) > 0 {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "Invalid", Message(problems)
	} else {
		status.Version, status.Tasks = document.Version, int32(len(document.Tasks))
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	return status
}

// Message says what is wrong with a document, as long as a condition may be.
func Message(problems field.ErrorList) string {
	const longest = 4000
	text := problems.ToAggregate().Error()
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return text
}
