// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podgroupprotection keeps a PodGroup that was deleted while it has pods that have not ended. Touch it when groups go too
// early or stay.
package podgroupprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/internal/protection"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Finalizer is what a protected group has. Admission gives it to new ones; who takes it away from one that is not deleted means that.
const Finalizer = schedulingv1beta1.GroupName + "/podgroup-protection"

// Reconciler lets one group go.
type Reconciler struct {
	Client client.Client
	// Live is asked before a group goes: the cache may miss a pod that was made just now.
	Live client.Reader
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&schedulingv1beta1.PodGroup{}, builder.WithPredicates(predicate.NewPredicateFuncs(deleted))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(groupOf), builder.WithPredicates(left())).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Live: env.Live}))
}

func deleted(obj client.Object) bool { return !obj.GetDeletionTimestamp().IsZero() }

// left lets through the events after which a group may have a pod less. An update may stand for a deletion and another pod of the
// same name.
func left() predicate.Predicate {
	ended := func(obj client.Object) bool { return pods.IsTerminal(obj.(*corev1.Pod)) }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return ended(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return ended(e.ObjectNew) || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
		},
	}
}

// groupOf is the group of a pod.
func groupOf(_ context.Context, obj client.Object) []reconcile.Request {
	name := pods.PodGroup(obj.(*corev1.Pod))
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// Reconcile looks at the group in req.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var group schedulingv1beta1.PodGroup
	if err := r.Client.Get(ctx, req.NamespacedName, &group); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !deleted(&group) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, protection.Keep(ctx, r.Client, &group, Finalizer, func(ctx context.Context) (bool, error) {
		cached, err := pods.InGroup(ctx, r.Client, group.Namespace, group.Name)
		if err != nil || len(cached) > 0 {
			return true, err
		}
		var live corev1.PodList
		if err := r.Live.List(ctx, &live, client.InNamespace(group.Namespace)); err != nil {
			return false, fmt.Errorf("listing pods: %w", err)
		}
		return slices.ContainsFunc(live.Items, func(p corev1.Pod) bool { return pods.PodGroup(&p) == group.Name && !pods.IsTerminal(&p) }), nil
	})
}
