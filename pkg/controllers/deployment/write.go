// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// syncRevision finds the new ReplicaSet among all, gives it the highest revision and the annotations of the Deployment,
// and the Deployment its revision. newRS is nil while there is none with the present template. The old ones come by age, as each list
// of them has another order, and of two that have failed it should always be the same one that the status tells of.
func (r *Reconciler) syncRevision(ctx context.Context, d *appsv1.Deployment, all []*appsv1.ReplicaSet) (newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet, err error) {
	newRS = findNew(d, all)
	old = without(byAge(all), newRS)
	if newRS == nil {
		return nil, old, nil
	}
	changed := annotateNew(d, newRS, nextRevision(old))
	if changed || newRS.Spec.MinReadySeconds != d.Spec.MinReadySeconds {
		newRS.Spec.MinReadySeconds = d.Spec.MinReadySeconds
		if err := r.Client.Update(ctx, newRS); err != nil {
			return nil, nil, fmt.Errorf("updating replica set %q: %w", newRS.Name, err)
		}
	}
	status := *d.Status.DeepCopy()
	if hasDeadline(d) && condition(&status, appsv1.DeploymentProgressing) == nil {
		message := fmt.Sprintf("Found new replica set %q", newRS.Name)
		setCondition(&status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, ReasonFoundReplicaSet, message, r.now()))
	}
	return newRS, old, r.writeRevision(ctx, d, newRS.Annotations[RevisionAnnotation], status)
}

// writeRevision writes the revision annotation of the Deployment together with its status, if either differs. A write of the
// Deployment itself would be a new generation of it, and a matter for whoever watches over what users write.
func (r *Reconciler) writeRevision(ctx context.Context, d *appsv1.Deployment, revision string, status appsv1.DeploymentStatus) error {
	if d.Annotations[RevisionAnnotation] == revision {
		return r.writeStatus(ctx, d, status)
	}
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[RevisionAnnotation], d.Status = revision, status
	if err := r.Client.Status().Update(ctx, d); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("setting the revision of deployment %q: %w", d.Name, err)
	}
	return nil
}

// create creates the ReplicaSet of the present template. It returns nil without an error when the namespace is being
// deleted.
func (r *Reconciler) create(ctx context.Context, d *appsv1.Deployment, old []*appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	rs := newReplicaSet(d, nextRevision(old))
	rs.Spec.Replicas = new(newSize(d, old, 0))
	err := r.Client.Create(ctx, rs)
	existed := false
	switch {
	case apierrors.IsAlreadyExists(err):
		if rs, err = r.resolve(ctx, d, rs.Name); err != nil {
			return nil, err
		}
		existed = true
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, nil
	case err != nil:
		return nil, r.createFailed(ctx, d, rs.Name, err)
	}
	if n := size(rs); !existed && n > 0 {
		r.Events.Eventf(d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled up replica set %s from 0 to %d", rs.Name, n)
	}
	status := *d.Status.DeepCopy()
	if !existed && hasDeadline(d) {
		message := fmt.Sprintf("Created new replica set %q", rs.Name)
		setCondition(&status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, ReasonNewReplicaSet, message, r.now()))
	}
	return rs, r.writeRevision(ctx, d, rs.Annotations[RevisionAnnotation], status)
}

// resolve deals with a name that is taken. Either the ReplicaSet is ours and the cache has not shown it yet, or another
// template has the same hash: then the collision count goes up, and the next attempt gets another name.
func (r *Reconciler) resolve(ctx context.Context, d *appsv1.Deployment, name string) (*appsv1.ReplicaSet, error) {
	rs := &appsv1.ReplicaSet{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, rs); err != nil {
		return nil, fmt.Errorf("reading replica set %q which exists: %w", name, err)
	}
	if ref := metav1.GetControllerOfNoCopy(rs); ref != nil && ref.UID == d.UID && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
		return rs, nil
	}
	status := *d.Status.DeepCopy()
	status.CollisionCount = new(ptr.Deref(status.CollisionCount, 0) + 1)
	if err := r.writeStatus(ctx, d, status); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("replica set %q of deployment %q exists with another template, collision count is %s now", name, d.Name, strconv.Itoa(int(*status.CollisionCount)))
}

// createFailed reports in condition and event that the ReplicaSet cannot be created and returns the error to retry on.
func (r *Reconciler) createFailed(ctx context.Context, d *appsv1.Deployment, name string, cause error) error {
	message := fmt.Sprintf("Failed to create new replica set %q: %v", name, cause)
	r.Events.Event(d, corev1.EventTypeWarning, ReasonReplicaSetCreateErr, message)
	if hasDeadline(d) {
		status := *d.Status.DeepCopy()
		setCondition(&status, newCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, ReasonReplicaSetCreateErr, message, r.now()))
		if err := r.writeStatus(ctx, d, status); err != nil {
			return err
		}
	}
	return fmt.Errorf("creating replica set %q: %w", name, cause)
}

// resize writes the new size and the size annotations of a ReplicaSet and reports whether the number of replicas changed.
func (r *Reconciler) resize(ctx context.Context, d *appsv1.Deployment, resize Resize) (bool, error) {
	rs, before := resize.ReplicaSet, size(resize.ReplicaSet)
	annotated := annotateSize(rs, replicas(d), replicas(d)+maxSurge(d))
	if before == resize.Replicas && !annotated {
		return false, nil
	}
	rs.Spec.Replicas = new(resize.Replicas)
	if err := r.Client.Update(ctx, rs); err != nil {
		return false, fmt.Errorf("scaling replica set %q to %d: %w", rs.Name, resize.Replicas, err)
	}
	if before == resize.Replicas {
		return false, nil
	}
	direction := "up"
	if resize.Replicas < before {
		direction = "down"
	}
	r.Events.Eventf(d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", direction, rs.Name, before, resize.Replicas)
	return true, nil
}

// cleanUp deletes the old ReplicaSets beyond revisionHistoryLimit.
func (r *Reconciler) cleanUp(ctx context.Context, d *appsv1.Deployment, old []*appsv1.ReplicaSet) error {
	for _, rs := range expired(d, old) {
		if err := r.Client.Delete(ctx, rs, client.Preconditions{UID: &rs.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting replica set %q of an expired revision: %w", rs.Name, err)
		}
	}
	return nil
}
