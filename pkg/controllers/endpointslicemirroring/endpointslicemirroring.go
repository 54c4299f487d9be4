// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpointslicemirroring copies Endpoints that people or programs write for a Service without selector into
// EndpointSlices, which is what proxies and DNS read (KEP-0752). Touch it when such addresses do not arrive there.
package endpointslicemirroring

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/backend"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// ManagedBy is the value of the label endpointslice.kubernetes.io/managed-by on the slices of this controller.
	ManagedBy = "endpointslicemirroring-controller.k8s.io"
	// maxPerSubset is the number of addresses of a subset that are mirrored (--mirroring-max-endpoints-per-subset).
	maxPerSubset = 1000
)

// Reconciler works on the slices of one Endpoints object at a time.
type Reconciler struct {
	Client client.Client
	Events record.EventRecorder
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Endpoints{}, builder.WithPredicates(either(mirrored))).
		Watches(&corev1.Service{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(selectorChange())).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(backend.ServiceOf), builder.WithPredicates(either(ours))).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Events: env.Events}))
}

// mirrored tells whether Endpoints want a mirror: the label says so, and locks of leaders do not.
func mirrored(obj client.Object) bool {
	_, lock := obj.GetAnnotations()[resourcelock.LeaderElectionRecordAnnotationKey]
	return !lock && obj.GetLabels()[discoveryv1.LabelSkipMirror] != "true"
}

// ours tells whether a slice is this controller's.
func ours(obj client.Object) bool { return obj.GetLabels()[discoveryv1.LabelManagedBy] == ManagedBy }

// either lets a change through whose object is as wanted before or after it.
func either(wanted func(client.Object) bool) predicate.Predicate {
	p := predicate.NewPredicateFuncs(wanted)
	p.UpdateFunc = func(e event.UpdateEvent) bool { return wanted(e.ObjectOld) || wanted(e.ObjectNew) }
	return p
}

// selectorChange lets Services without selector come and go, and those that change sides.
func selectorChange() predicate.Predicate {
	without := func(obj client.Object) bool {
		svc, ok := obj.(*corev1.Service)
		return ok && svc.Spec.Selector == nil
	}
	p := predicate.NewPredicateFuncs(without)
	p.UpdateFunc = func(e event.UpdateEvent) bool { return without(e.ObjectOld) != without(e.ObjectNew) }
	return p
}

// Reconcile brings the slices of the Endpoints in req up to date, and deletes them when there is nothing to mirror.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	endpoints, err := r.source(ctx, req)
	if err != nil {
		return reconcile.Result{}, err
	}
	existing, err := backend.Slices(ctx, r.Client, req.NamespacedName, ManagedBy)
	if err != nil {
		return reconcile.Result{}, err
	}
	if endpoints == nil {
		return reconcile.Result{}, r.apply(ctx, Plan{Delete: existing})
	}
	plan := Mirror(endpoints, existing, maxPerSubset)
	if plan.Invalid > 0 {
		r.Events.Eventf(endpoints, corev1.EventTypeWarning, "InvalidIPAddress",
			"Skipped %d invalid IP addresses when mirroring to EndpointSlices", plan.Invalid)
	}
	if plan.Skipped > plan.Invalid {
		r.Events.Eventf(endpoints, corev1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped",
			maxPerSubset, plan.Skipped)
	}
	if endpoints.DeletionTimestamp != nil {
		plan.Create = nil
	}
	return reconcile.Result{}, r.apply(ctx, plan)
}

// source returns the Endpoints in req if they are to be mirrored: a Service of their name has to exist, without
// selector.
func (r *Reconciler) source(ctx context.Context, req reconcile.Request) (*corev1.Endpoints, error) {
	endpoints := &corev1.Endpoints{}
	if err := r.Client.Get(ctx, req.NamespacedName, endpoints); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !mirrored(endpoints) {
		return nil, nil
	}
	var svc corev1.Service
	if err := r.Client.Get(ctx, req.NamespacedName, &svc); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if svc.Spec.Selector != nil {
		return nil, nil
	}
	return endpoints, nil
}

// apply makes the writes of a plan. A namespace that ends takes no new slices, and needs none.
func (r *Reconciler) apply(ctx context.Context, plan Plan) error {
	for _, slice := range plan.Create {
		err := r.Client.Create(ctx, slice)
		switch {
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return nil
		case err != nil:
			return fmt.Errorf("creating an endpoint slice: %w", err)
		}
	}
	for _, slice := range plan.Update {
		if err := r.Client.Update(ctx, slice); err != nil {
			return fmt.Errorf("updating endpoint slice %q: %w", slice.Name, err)
		}
	}
	var errs []error
	for _, slice := range plan.Delete {
		if err := r.Client.Delete(ctx, slice, client.Preconditions{UID: &slice.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting endpoint slice %q: %w", slice.Name, err))
		}
	}
	return errors.Join(errs...)
}
