// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Orphans lets go of pods that no Job will count any more: the finalizer would keep them for ever.
type Orphans struct {
	Client client.Client
}

func setUpOrphans(env setup.Env) error {
	o := &Orphans{Client: env.Client}
	stray := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return hasFinalizer(obj.(*corev1.Pod)) &&
			(metav1.GetControllerOfNoCopy(obj) == nil || obj.GetDeletionTimestamp() != nil)
	})
	over := predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return isFinished(e.ObjectNew.(*batchv1.Job)) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name+"-orphans").
		For(&corev1.Pod{}, builder.WithPredicates(stray)).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(o.heldBy), builder.WithPredicates(over)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(o))
}

// heldBy returns the pods that a Job, which is over, has not let go.
func (o *Orphans) heldBy(ctx context.Context, obj client.Object) []reconcile.Request {
	selector, err := selectorOf(obj.(*batchv1.Job))
	if err != nil {
		return nil // validation rejects such a selector
	}
	return ownwrites.EnqueueFor(ctx, o.Client, &corev1.PodList{}, hasFinalizer,
		client.InNamespace(obj.GetNamespace()), client.MatchingLabelsSelector{Selector: selector})
}

// Reconcile lets the pod in req go unless it has a Job which is not finished.
func (o *Orphans) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := o.Client.Get(ctx, req.NamespacedName, pod, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !hasFinalizer(pod) {
		return reconcile.Result{}, nil
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if ref.Kind != kind.Kind || ref.APIVersion != kind.GroupVersion().String() {
			return reconcile.Result{}, nil
		}
		job := &batchv1.Job{}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}
		err := o.Client.Get(ctx, key, job, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("reading Job %q: %w", ref.Name, err)
		}
		if err == nil && job.UID == ref.UID && (isManagedElsewhere(job) || !isFinished(job)) {
			return reconcile.Result{}, nil
		}
	}
	// Somebody may adopt the pod in this moment; then it has to be counted.
	return reconcile.Result{}, removeFinalizer(ctx, o.Client, pod, pod.ResourceVersion)
}
