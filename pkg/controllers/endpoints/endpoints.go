// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpoints publishes the pods of a Service as an object of the older kind Endpoints. Touch it for programs that
// still read that kind; kube-proxy and DNS read EndpointSlices.
package endpoints

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	endpointsliceutil "k8s.io/endpointslice/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/backend"
	"minik8s.io/minik8s/pkg/controllers/internal/subsets"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// LabelManagedBy marks the Endpoints objects of this controller.
	LabelManagedBy = "endpoints.kubernetes.io/managed-by"
	managedBy      = "endpoint-controller"
	// maxAddresses is the most addresses an Endpoints object shows; EndpointSlices have no such limit.
	maxAddresses = 1000
	truncated    = "truncated"
)

// Reconciler works on the Endpoints of one Service at a time.
type Reconciler struct {
	client  client.Client
	events  record.EventRecorder
	trigger *endpointsliceutil.TriggerTimeTracker
}

// New returns a reconciler.
func New(c client.Client, events record.EventRecorder) *Reconciler {
	return &Reconciler{client: c, events: events, trigger: endpointsliceutil.NewTriggerTimeTracker()}
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	r := New(env.Client, env.Events)
	// Endpoints without the label belong to someone else; they may well exist without a Service.
	ours := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetLabels()[LabelManagedBy] == managedBy })
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Service{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(backend.Requests(env.Client)), builder.WithPredicates(backend.Changed())).
		Watches(&corev1.Endpoints{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(ours)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// Reconcile brings the Endpoints of the Service in req up to date, and deletes them when the Service is gone.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	svc := &corev1.Service{}
	err := r.client.Get(ctx, req.NamespacedName, svc)
	if apierrors.IsNotFound(err) {
		r.trigger.DeleteService(req.Namespace, req.Name)
		return reconcile.Result{}, r.remove(ctx, req)
	}
	if err != nil || !backend.HasBackends(svc) {
		return reconcile.Result{}, err
	}
	pods, err := backend.Pods(ctx, r.client, svc)
	if err != nil {
		return reconcile.Result{}, err
	}
	triggered := r.trigger.ComputeEndpointLastChangeTriggerTime(svc.Namespace, svc, pods)
	current := &corev1.Endpoints{}
	err = r.client.Get(ctx, req.NamespacedName, current)
	if apierrors.IsNotFound(err) {
		current = &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}}
	} else if err != nil {
		return reconcile.Result{}, err
	}
	wanted := build(svc, pods, current, triggered)
	if current.ResourceVersion != "" && same(current, wanted) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.write(ctx, wanted)
}

// remove deletes the Endpoints of a Service that is gone.
func (r *Reconciler) remove(ctx context.Context, req reconcile.Request) error {
	var current corev1.Endpoints
	if err := r.client.Get(ctx, req.NamespacedName, &current); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := r.client.Delete(ctx, &current, client.Preconditions{UID: &current.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting endpoints %q: %w", req, err)
	}
	return nil
}

// write creates or updates the Endpoints.
func (r *Reconciler) write(ctx context.Context, wanted *corev1.Endpoints) error {
	if wanted.ResourceVersion == "" {
		err := r.client.Create(ctx, wanted)
		if err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		r.events.Eventf(wanted, corev1.EventTypeWarning, "FailedToCreateEndpoint", "Failed to create endpoint for service %v/%v: %v", wanted.Namespace, wanted.Name, err)
		return fmt.Errorf("creating endpoints %q: %w", wanted.Name, err)
	}
	if err := r.client.Update(ctx, wanted); err != nil {
		r.events.Eventf(wanted, corev1.EventTypeWarning, "FailedToUpdateEndpoint", "Failed to update endpoint %v/%v: %v", wanted.Namespace, wanted.Name, err)
		return fmt.Errorf("updating endpoints %q: %w", wanted.Name, err)
	}
	return nil
}

// build returns what current should become.
func build(svc *corev1.Service, pods []*corev1.Pod, current *corev1.Endpoints, triggered time.Time) *corev1.Endpoints {
	wanted := current.DeepCopy()
	var cut bool
	wanted.Subsets, cut = truncate(Subsets(svc, pods), maxAddresses)
	wanted.Labels = maps.Clone(svc.Labels)
	if wanted.Labels == nil {
		wanted.Labels = map[string]string{}
	}
	wanted.Labels[LabelManagedBy] = managedBy
	if svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone {
		wanted.Labels[corev1.IsHeadlessService] = ""
	} else {
		delete(wanted.Labels, corev1.IsHeadlessService)
	}
	if wanted.Annotations == nil {
		wanted.Annotations = map[string]string{}
	}
	if triggered.IsZero() {
		delete(wanted.Annotations, corev1.EndpointsLastChangeTriggerTime)
	} else {
		wanted.Annotations[corev1.EndpointsLastChangeTriggerTime] = triggered.UTC().Format(time.RFC3339Nano)
	}
	if cut {
		wanted.Annotations[corev1.EndpointsOverCapacity] = truncated
	} else {
		delete(wanted.Annotations, corev1.EndpointsOverCapacity)
	}
	return wanted
}

// same reports whether nothing but the trigger time differs, which alone is not worth a write, or the order.
func same(a, b *corev1.Endpoints) bool {
	return maps.Equal(a.Labels, b.Labels) &&
		a.Annotations[corev1.EndpointsOverCapacity] == b.Annotations[corev1.EndpointsOverCapacity] &&
		(equality.Semantic.DeepEqual(a.Subsets, b.Subsets) || equality.Semantic.DeepEqual(subsets.Repack(a.Subsets), b.Subsets))
}
