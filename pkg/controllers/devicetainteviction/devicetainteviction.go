// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package devicetainteviction deletes pods that use devices with a NoExecute taint which their claims do not tolerate, and tells
// in the status of DeviceTaintRules how far that has got (KEP-5055). Touch eviction.go for when a pod has to go, pod.go for how it
// goes, and rule.go for what a rule says of it.
package devicetainteviction

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// byPool indexes slices by driver and pool.
	byPool = "devicetainteviction.pool"
	// statusPeriod is the shortest time between two writes of a rule's status.
	statusPeriod = 10 * time.Second
)

// Setup adds both reconcilers to the manager.
func Setup(env setup.Env) error {
	err := env.Manager.GetFieldIndexer().IndexField(context.Background(), &resourcev1.ResourceSlice{}, byPool, func(obj client.Object) []string {
		slice := obj.(*resourcev1.ResourceSlice)
		return []string{key(Pool{Driver: slice.Spec.Driver, Name: slice.Spec.Pool.Name})}
	})
	if err != nil {
		return fmt.Errorf("indexing resource slices: %w", err)
	}
	cluster := &cluster{client: env.Client, slices: func(pool Pool) client.ListOption { return client.MatchingFields{byPool: key(pool)} }}
	evicted := &evicted{}
	withClaims := predicate.NewPredicateFuncs(func(obj client.Object) bool { return len(obj.(*corev1.Pod).Spec.ResourceClaims) > 0 })
	err = ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Pod{}, builder.WithPredicates(withClaims, moved())).
		Watches(&resourcev1.ResourceClaim{}, handler.EnqueueRequestsFromMapFunc(users)).
		Watches(&resourcev1.ResourceSlice{}, handler.EnqueueRequestsFromMapFunc(cluster.usersOfSlice), builder.WithPredicates(retainted())).
		Watches(&resourcev1.DeviceTaintRule{}, handler.EnqueueRequestsFromMapFunc(cluster.usersOfRule), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&PodReconciler{Client: env.Client, cluster: cluster, Events: env.Events, Clock: env.Clock, evicted: evicted}))
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name+"-rules").
		For(&resourcev1.DeviceTaintRule{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, later(cluster.evictingRules), builder.WithPredicates(withClaims)).
		Watches(&resourcev1.ResourceClaim{}, later(cluster.evictingRules)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&RuleReconciler{Client: env.Client, cluster: cluster, Clock: env.Clock, evicted: evicted}))
}

func key(pool Pool) string { return pool.Driver + "/" + pool.Name }

// moved lets through the events after which a pod may use other devices.
func moved() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return before.Spec.NodeName != after.Spec.NodeName || before.DeletionTimestamp == nil && after.DeletionTimestamp != nil ||
			!equality.Semantic.DeepEqual(before.Status.ResourceClaimStatuses, after.Status.ResourceClaimStatuses)
	}}
}

// retainted lets through the events of slices after which other devices may be tainted.
func retainted() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*resourcev1.ResourceSlice), e.ObjectNew.(*resourcev1.ResourceSlice)
		return before.Spec.Pool.Generation != after.Spec.Pool.Generation || !reflect.DeepEqual(tainted(before), tainted(after))
	}}
}

// tainted are the taints of a slice by device.
func tainted(slice *resourcev1.ResourceSlice) map[string][]resourcev1.DeviceTaint {
	taints := map[string][]resourcev1.DeviceTaint{}
	for _, device := range slice.Spec.Devices {
		if len(device.Taints) > 0 {
			taints[device.Name] = device.Taints
		}
	}
	return taints
}

// later enqueues what an event maps to after a while, so that many events lead to one look.
func later(find handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, obj client.Object, q queue) {
		for _, request := range find(ctx, obj) {
			q.AddAfter(request, statusPeriod)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object, q) },
	}
}

// users are the pods that a claim is reserved for.
func users(_ context.Context, obj client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, consumer := range obj.(*resourcev1.ResourceClaim).Status.ReservedFor {
		if consumer.APIGroup == "" && consumer.Resource == "pods" {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: consumer.Name}})
		}
	}
	return requests
}
