// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package service gives Services of type LoadBalancer their addresses, from a pool of the cluster: what the service controller
// of a cloud does upstream. The addresses are in their statuses and nowhere else; proxies lead what goes to them to endpoints,
// and the machine has them by pkg/loadbalancer. Touch it for who gets which address (plan.go), and for what users are told.
package service

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// Finalizer keeps a Service until its address is freed (upstream LoadBalancerCleanupFinalizer).
	Finalizer = "service.kubernetes.io/load-balancer-cleanup"
	// Class is the spec.loadBalancerClass of Services that want us and nobody else. Those without a class are ours too.
	Class = "minik8s.io/loadbalancer"
	// AnnotationAddresses asks for certain addresses of the pool, with commas between those of two families. Without it
	// spec.loadBalancerIP counts.
	AnnotationAddresses = "loadbalancer.minik8s.io/addresses"
)

// Reconciler works on all Services in a pass: who gets an address depends on who has one. It runs one pass at a time.
type Reconciler struct {
	Client client.Client
	Events record.EventRecorder
	// Pool is where addresses come from, by preference.
	Pool []netip.Prefix

	// told are the problems that were told of a Service, so that each is told once.
	told map[types.UID]string
}

// Setup adds the controller to the manager. Without a pool there is nothing to give, and Services wait for somebody else.
func Setup(env setup.Env) error {
	if len(env.LoadBalancerPool) == 0 {
		return nil
	}
	options := env.Options()
	options.MaxConcurrentReconciles = 1
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(concerned)).
		WithOptions(options).
		Complete(env.Barrier.ForAll(&Reconciler{Client: env.Client, Events: env.Events, Pool: env.LoadBalancerPool}))
}

// pool is the only request.
var pool = reconcile.Request{NamespacedName: types.NamespacedName{Name: "pool"}}

// concerned asks for a pass if a Service has, or could have, an address. Of a change it is called with both states.
func concerned(_ context.Context, obj client.Object) []reconcile.Request {
	s := obj.(*corev1.Service)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && !hasFinalizer(s) && len(s.Spec.ExternalIPs) == 0 {
		return nil
	}
	return []reconcile.Request{pool}
}

// Reconcile gives and takes addresses. What fails for one Service holds up no other.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	services, err := ownwrites.Peek[*corev1.Service](ctx, r.Client, &corev1.ServiceList{})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("listing services: %w", err)
	}
	told := map[types.UID]string{}
	var failed []error
	for _, o := range plan(services, r.Pool) {
		if err := r.write(ctx, o); err != nil {
			failed = append(failed, err)
			if !apierrors.IsConflict(err) {
				o.problem = errors.Join(o.problem, err)
			}
		}
		if o.problem == nil {
			continue
		}
		uid, text := o.service.UID, o.problem.Error()
		if told[uid] = text; r.told[uid] != text {
			r.Events.Eventf(o.service, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: %s", doing(o)+text)
		}
	}
	r.told = told
	return reconcile.Result{}, errors.Join(failed...)
}

func doing(o outcome) string {
	if o.served {
		return "failed to ensure load balancer: "
	}
	return "failed to delete load balancer: "
}

// write makes a Service what it is to be like. Status and finalizer change in one write, and only if the Service is still the
// one that was planned for.
func (r *Reconciler) write(ctx context.Context, o outcome) error {
	want := o.ingress()
	if settled(o.service, want) && hasFinalizer(o.service) == o.served {
		return nil
	}
	before, after := "EnsuringLoadBalancer", "EnsuredLoadBalancer"
	beforeText, afterText := "Ensuring load balancer", "Ensured load balancer"
	changed := o.service.DeepCopy()
	changed.Status.LoadBalancer.Ingress = want
	if o.served {
		controllerutil.AddFinalizer(changed, Finalizer)
	} else {
		controllerutil.RemoveFinalizer(changed, Finalizer)
		before, after = "DeletingLoadBalancer", "DeletedLoadBalancer"
		beforeText, afterText = "Deleting load balancer", "Deleted load balancer"
	}
	r.Events.Event(o.service, corev1.EventTypeNormal, before, beforeText)
	patch := client.MergeFromWithOptions(o.service, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, changed, patch); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("writing the load balancer of service %q: %w", o.service.Namespace+"/"+o.service.Name, err)
	}
	if o.problem == nil {
		r.Events.Event(o.service, corev1.EventTypeNormal, after, afterText)
	}
	return nil
}

// settled tells whether a Service has the ingress that it is to have.
func settled(s *corev1.Service, want []corev1.LoadBalancerIngress) bool {
	has := s.Status.LoadBalancer.Ingress
	return slices.EqualFunc(has, want, func(a, b corev1.LoadBalancerIngress) bool {
		return apiequality.Semantic.DeepEqual(a, b)
	})
}
