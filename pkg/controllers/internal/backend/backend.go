// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package backend finds the pods behind a Service and the Services in front of a pod, for the controllers that publish
// endpoints. Touch it when a change of a pod does not reach its Services.
package backend

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	endpointsliceutil "k8s.io/endpointslice/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
)

// HasBackends reports whether the endpoints of a Service are the pods that its selector matches. The endpoints of others
// are their owner's business.
func HasBackends(svc *corev1.Service) bool {
	return svc.Spec.Type != corev1.ServiceTypeExternalName && svc.Spec.Selector != nil
}

// Pods returns the pods that the Service's selector matches. They belong to the cache and must not be changed.
func Pods(ctx context.Context, reader client.Reader, svc *corev1.Service) ([]*corev1.Pod, error) {
	selector := labels.ValidatedSetSelector(svc.Spec.Selector)
	pods, err := ownwrites.Peek[*corev1.Pod](ctx, reader, &corev1.PodList{}, client.InNamespace(svc.Namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of service %q: %w", svc.Name, err)
	}
	return pods, nil
}

// Requests maps a pod to the Services that select it.
func Requests(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, pod client.Object) []reconcile.Request {
		var requests []reconcile.Request
		for _, where := range index.MaySelect(pod) {
			requests = append(requests, ownwrites.EnqueueFor(ctx, reader, &corev1.ServiceList{}, func(svc *corev1.Service) bool {
				// This kind of selector is the map itself; the usual one would be built anew for each pod.
				return HasBackends(svc) && labels.ValidatedSetSelector(svc.Spec.Selector).Matches(labels.Set(pod.GetLabels()))
			}, where)...)
		}
		return requests
	}
}

// Slices lists the EndpointSlices of a Service that a controller of this name made and nobody is deleting. They are copies.
func Slices(ctx context.Context, reader client.Reader, service types.NamespacedName, managedBy string) ([]*discoveryv1.EndpointSlice, error) {
	found, err := ownwrites.Peek[*discoveryv1.EndpointSlice](ctx, reader, &discoveryv1.EndpointSliceList{}, index.OfService(service.Namespace, service.Name))
	if err != nil {
		return nil, fmt.Errorf("listing the endpoint slices of service %q: %w", service, err)
	}
	var slices []*discoveryv1.EndpointSlice
	for _, slice := range found {
		if slice.Labels[discoveryv1.LabelManagedBy] == managedBy && slice.DeletionTimestamp == nil {
			slices = append(slices, slice.DeepCopy())
		}
	}
	return slices, nil
}

// Changed lets through the changes of pods that endpoints show: labels, addresses, readiness, deletion and the like.
func Changed() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return endpointsliceutil.GetPodUpdateProjectionKey(e.ObjectOld, e.ObjectNew) != nil
		},
	}
}

// ServiceOf maps an EndpointSlice to the Service that its label names. Endpoints have the same name.
func ServiceOf(_ context.Context, slice client.Object) []reconcile.Request {
	name := slice.GetLabels()[discoveryv1.LabelServiceName]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: slice.GetNamespace(), Name: name}}}
}
