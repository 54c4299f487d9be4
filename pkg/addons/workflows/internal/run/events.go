// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/dsl"
)

// pruneAt is how many events of a run nobody waits for when they are taken out, all at once: each time is a write.
const pruneAt = 64

// eventOf reads an event. What is no object is none: nobody listens to it.
func eventOf(raw apiextensionsv1.JSON) (map[string]any, bool) {
	value, err := dsl.Decode(raw.Raw)
	e, ok := value.(map[string]any)
	return e, ok && err == nil
}

// wanted are the events that a task of the run may still take.
func (x *execution) wanted(events []apiextensionsv1.JSON) []apiextensionsv1.JSON {
	return slices.DeleteFunc(slices.Clone(events), func(raw apiextensionsv1.JSON) bool {
		e, ok := eventOf(raw)
		return !ok || !x.state.Wants(x.doc, e)
	})
}

// prune takes out of a run the events that none of its tasks will take, once that are many: a run has room for so many only, and listens for as
// long as it likes. That they were taken is written down by now. What is there now counts, as others add to it; it is tried again with the
// next event.
func (r *Reconciler) prune(ctx context.Context, x *execution) {
	needless := func(events []apiextensionsv1.JSON) bool { return len(events)-len(x.wanted(events)) >= pruneAt }
	if x.state.End != nil || len(x.object.Spec.Events) < pruneAt || !needless(x.object.Spec.Events) {
		return
	}
	run := &workflowsv1alpha1.WorkflowRun{}
	err := r.reader.Get(ctx, x.name, run)
	if err != nil || run.UID != x.object.UID || revision(run) != revision(x.object) || !needless(run.Spec.Events) {
		return
	}
	run.Spec.Events = x.wanted(run.Spec.Events)
	switch err := r.client.Update(ctx, run); {
	case err == nil:
		x.object = run
	case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
		ctrl.LoggerFrom(ctx).Error(err, "Taking events out of a run that it does not need any more")
	}
}
