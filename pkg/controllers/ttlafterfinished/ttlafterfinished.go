// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package ttlafterfinished deletes Jobs some time after they have finished (KEP-592). Touch it when a Job with
// ttlSecondsAfterFinished goes too early or stays too long.
package ttlafterfinished

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Reconciler works on one Job at a time.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	r := &Reconciler{Client: env.Client, Live: env.Live, Clock: env.Clock}
	limited := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		_, ok, err := Expiry(obj.(*batchv1.Job))
		return ok || err != nil
	})
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&batchv1.Job{}, builder.WithPredicates(limited)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// Reconcile deletes the Job in req with its pods if its time is over, or comes back when it will be.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var job *batchv1.Job
	// The cached Job may be older than a change which gives it more time, so the live one has the last word.
	for _, reader := range []client.Reader{r.Client, r.Live} {
		job = &batchv1.Job{}
		if err := reader.Get(ctx, req.NamespacedName, job); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		expiry, ok, err := Expiry(job)
		if err != nil {
			// Another try cannot help before the Job changes.
			return reconcile.Result{}, reconcile.TerminalError(err)
		}
		if !ok {
			return reconcile.Result{}, nil
		}
		if left := expiry.Sub(r.Clock.Now()); left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
	}
	foreground := client.PropagationPolicy(metav1.DeletePropagationForeground)
	err := r.Client.Delete(ctx, job, client.Preconditions{UID: &job.UID}, foreground)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("deleting the finished Job %q: %w", req, err)
	}
	return reconcile.Result{}, nil
}

// Expiry returns when a Job is to be deleted. ok is false for one that has not finished, is being deleted or may stay;
// it is an error if a finished one does not say when it did.
func Expiry(job *batchv1.Job) (expiry time.Time, ok bool, err error) {
	if job.DeletionTimestamp != nil || job.Spec.TTLSecondsAfterFinished == nil {
		return time.Time{}, false, nil
	}
	for _, c := range job.Status.Conditions {
		if c.Type != batchv1.JobComplete && c.Type != batchv1.JobFailed || c.Status != corev1.ConditionTrue {
			continue
		}
		if c.LastTransitionTime.IsZero() {
			return time.Time{}, false, fmt.Errorf("unable to find the time when the Job %s/%s finished", job.Namespace, job.Name)
		}
		return c.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second), true, nil
	}
	return time.Time{}, false, nil
}
