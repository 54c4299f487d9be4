// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package endpointslice

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// foreignChange lets through the changes of slices that somebody else made: the tracker knows the generations that this
// controller wrote and the deletions it asked for.
func (r *Reconciler) foreignChange() predicate.Predicate {
	slice := func(obj client.Object) *discoveryv1.EndpointSlice {
		s, _ := obj.(*discoveryv1.EndpointSlice)
		return s
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			s := slice(e.Object)
			return s != nil && r.slices.ManagedByController(s) && r.tracker.ShouldSync(s)
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := slice(e.ObjectOld), slice(e.ObjectNew)
			if before == nil || after == nil {
				return false
			}
			if before.Labels[discoveryv1.LabelServiceName] != after.Labels[discoveryv1.LabelServiceName] {
				return true
			}
			return r.slices.ManagedByChanged(before, after) || (r.slices.ManagedByController(after) && r.tracker.ShouldSync(after))
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			s := slice(e.Object)
			return s != nil && r.slices.ManagedByController(s) && r.tracker.Has(s) && !r.tracker.HandleDeletion(s)
		},
	}
}

// zoneChange lets through the changes of nodes that move the share of a zone.
func zoneChange() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1.Node)
			after, ok2 := e.ObjectNew.(*corev1.Node)
			if !ok1 || !ok2 {
				return false
			}
			return !maps.Equal(before.Labels, after.Labels) || isReady(before) != isReady(after) ||
				before.Spec.Unschedulable != after.Spec.Unschedulable || !before.Status.Allocatable.Cpu().Equal(*after.Status.Allocatable.Cpu())
		},
	}
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// nodesChanged tells the zone shares about the nodes and asks for the Services whose hints are out of balance now.
func (r *Reconciler) nodesChanged(ctx context.Context, _ client.Object) []reconcile.Request {
	logger := ctrl.LoggerFrom(ctx)
	all, err := nodes{r.reader}.List(labels.Everything())
	if err != nil {
		logger.Error(err, "Listing nodes")
		return nil
	}
	r.zones.SetNodes(logger, all)
	var requests []reconcile.Request
	for _, key := range r.zones.GetOverloadedServices() {
		namespace, name, err := cache.SplitMetaNamespaceKey(key)
		if err != nil {
			continue
		}
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	return requests
}
