// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resourceclaim makes the ResourceClaims that pods ask for by a template, and takes claims back from pods that do not
// need them any more (KEP-4381). Touch pod.go for how claims come to pods, and claim.go for how they are given up. Devices are
// allocated by the scheduler.
package resourceclaim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Setup adds both reconcilers to the manager.
func Setup(env setup.Env) error {
	m := mapper{pods: env.Client}
	idle := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isDone(e.Object.(*corev1.Pod)) },
		UpdateFunc: func(e event.UpdateEvent) bool { return isDone(e.ObjectNew.(*corev1.Pod)) },
	}
	err := ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
			return len(obj.(*corev1.Pod).Spec.ResourceClaims) > 0
		}))).
		Watches(&resourcev1.ResourceClaim{}, handler.EnqueueRequestsFromMapFunc(m.podsBy(pods.ResourceClaimField))).
		Watches(&resourcev1.ResourceClaimTemplate{}, handler.EnqueueRequestsFromMapFunc(m.podsBy(pods.ResourceClaimTemplateField))).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&PodReconciler{Client: env.Client, Live: env.Live, Events: env.Events}))
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name+"-release").
		For(&resourcev1.ResourceClaim{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(claimsOf), builder.WithPredicates(idle)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&ClaimReconciler{Client: env.Client, Live: env.Live}))
}

// mapper finds the pods that an event concerns.
type mapper struct{ pods client.Reader }

// podsBy maps an object to the pods that the index has under its name.
func (m mapper) podsBy(index string) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		return ownwrites.EnqueueFor(ctx, m.pods, &corev1.PodList{}, func(*corev1.Pod) bool { return true },
			client.InNamespace(obj.GetNamespace()), client.MatchingFields{index: obj.GetName()})
	}
}

// claimsOf maps a pod to its claims, among them the one that the scheduler made for extended resources.
func claimsOf(_ context.Context, obj client.Object) []reconcile.Request {
	pod := obj.(*corev1.Pod)
	names := pods.ResourceClaims(pod)
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		names = append(names, extended.ResourceClaimName)
	}
	requests := make([]reconcile.Request, len(names))
	for i, name := range names {
		requests[i].NamespacedName = types.NamespacedName{Namespace: pod.Namespace, Name: name}
	}
	return requests
}

// isDone tells whether it is certain that no container of the pod runs or will.
func isDone(pod *corev1.Pod) bool {
	return pods.IsTerminal(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}
