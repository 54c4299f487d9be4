// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Reasons of the events that say what became of the wish to go back to a revision.
const (
	ReasonRollbackNotFound  = "DeploymentRollbackRevisionNotFound"
	ReasonRollbackUnchanged = "DeploymentRollbackTemplateUnchanged"
	ReasonRollbackDone      = "DeploymentRollback"
)

// rollbackTo returns the revision to go back to, 0 for the last one. The annotation stands for a field of extensions/v1beta1,
// which later versions do not have; what is no number is left alone.
func rollbackTo(d *appsv1.Deployment) (to int64, ok bool) {
	to, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	return to, err == nil
}

// rollback goes back to a revision, and takes the wish for it away, also if it cannot be fulfilled. The pass ends with it: the
// rollout begins with the event of this write.
func (r *Reconciler) rollback(ctx context.Context, d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet, to int64) error {
	if newRS == nil {
		created, err := r.create(ctx, d, old)
		if err != nil || created == nil {
			return err
		}
		newRS = created
	}
	reason, message := goBack(d, append(slices.Clone(old), newRS), to)
	if err := r.Client.Update(ctx, d); err != nil {
		return fmt.Errorf("rolling deployment %q back: %w", d.Name, err)
	}
	eventType := corev1.EventTypeWarning
	if reason == ReasonRollbackDone {
		eventType = corev1.EventTypeNormal
	}
	r.Events.Event(d, eventType, reason, message)
	return nil
}

// goBack changes the Deployment to what it was at a revision, and says what came of it. The annotations come back too: those
// that the Deployment has now are of the revision that is left.
func goBack(d *appsv1.Deployment, all []*appsv1.ReplicaSet, to int64) (reason, message string) {
	delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	if to == 0 {
		if to = lastRevision(all); to == 0 {
			return ReasonRollbackNotFound, "Unable to find last revision."
		}
	}
	i := slices.IndexFunc(all, func(rs *appsv1.ReplicaSet) bool { return revision(rs) == to })
	if i < 0 {
		return ReasonRollbackNotFound, "Unable to find the revision to rollback to."
	}
	if sameTemplate(&d.Spec.Template, &all[i].Spec.Template) {
		return ReasonRollbackUnchanged, fmt.Sprintf("The rollback revision contains the same template as current deployment %q", d.Name)
	}
	d.Spec.Template = *all[i].Spec.Template.DeepCopy()
	delete(d.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	maps.DeleteFunc(d.Annotations, func(key, _ string) bool { return !notCopied[key] })
	for key, value := range all[i].Annotations {
		if !notCopied[key] {
			d.Annotations[key] = value
		}
	}
	return ReasonRollbackDone, fmt.Sprintf("Rolled back deployment %q to revision %d", d.Name, to)
}

// lastRevision is the second highest one; 0 if there is none.
func lastRevision(all []*appsv1.ReplicaSet) int64 {
	var highest, second int64
	for _, rs := range all {
		switch n := revision(rs); {
		case n >= highest:
			highest, second = n, highest
		case n > second:
			second = n
		}
	}
	return second
}
