// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package servicecidrs says of each ServiceCIDR, a range of ClusterIPs, whether it is ready, and keeps one that was
// deleted while it holds the address of a Service that no other range does (KEP-1880). Touch it when ranges stay or go
// too early.
package servicecidrs

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// Finalizer is what keeps a range.
	Finalizer = "networking.k8s.io/service-cidr-finalizer"
	// fieldOwner owns the condition.
	fieldOwner = "service-cidr-controller"
	// allocator is the label of the addresses that belong to Services.
	allocator = "ipallocator.k8s.io"
	// grace is how long a range stays after its deletion at least, so that all API servers learn of it and take no more
	// addresses from it.
	grace = 10 * time.Second
)

// Reconciler works on one range at a time.
type Reconciler struct {
	Client client.Client
	Events record.EventRecorder
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	r := &Reconciler{Client: env.Client, Events: env.Events, Clock: env.Clock}
	ofService := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetLabels()[networkingv1.LabelManagedBy] == allocator
	})
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&networkingv1.ServiceCIDR{}).
		// A new range may free another one that it overlaps.
		Watches(&networkingv1.ServiceCIDR{}, handler.EnqueueRequestsFromMapFunc(r.deleted)).
		Watches(&networkingv1.IPAddress{}, handler.EnqueueRequestsFromMapFunc(r.deleted), builder.WithPredicates(ofService)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// deleted returns the ranges that wait for their end: only for them does it matter which addresses and other ranges
// exist.
func (r *Reconciler) deleted(ctx context.Context, _ client.Object) []reconcile.Request {
	return ownwrites.EnqueueFor(ctx, r.Client, &networkingv1.ServiceCIDRList{}, func(c *networkingv1.ServiceCIDR) bool { return c.DeletionTimestamp != nil })
}

// Reconcile brings the finalizer and the condition of the range in req up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var cidr networkingv1.ServiceCIDR
	if err := r.Client.Get(ctx, req.NamespacedName, &cidr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if cidr.DeletionTimestamp != nil {
		return r.end(ctx, &cidr)
	}
	if !slices.Contains(cidr.Finalizers, Finalizer) {
		if err := r.patch(ctx, &cidr, controllerutil.AddFinalizer); err != nil {
			return reconcile.Result{}, err
		}
	}
	err := r.tell(ctx, &cidr, metav1.ConditionTrue, "", "Kubernetes Service CIDR is ready")
	if err != nil {
		r.Events.Eventf(&cidr, corev1.EventTypeWarning, "KubernetesServiceCIDRError",
			"The ServiceCIDR Status can not be set to Ready=True")
	}
	return reconcile.Result{}, err
}

// end lets a deleted range go if nothing needs it, not before the grace period is over.
func (r *Reconciler) end(ctx context.Context, cidr *networkingv1.ServiceCIDR) (reconcile.Result, error) {
	if !slices.Contains(cidr.Finalizers, Finalizer) {
		return reconcile.Result{}, nil
	}
	needed, err := r.needed(ctx, cidr)
	if err != nil {
		return reconcile.Result{}, err
	}
	if needed {
		return reconcile.Result{}, r.tell(ctx, cidr, metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating,
			"There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR")
	}
	if left := cidr.DeletionTimestamp.Add(grace).Sub(r.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{}, r.patch(ctx, cidr, controllerutil.RemoveFinalizer)
}

func (r *Reconciler) needed(ctx context.Context, cidr *networkingv1.ServiceCIDR) (bool, error) {
	var cidrs networkingv1.ServiceCIDRList
	if err := r.Client.List(ctx, &cidrs, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing service CIDRs: %w", err)
	}
	var others []netip.Prefix
	for i := range cidrs.Items {
		if cidrs.Items[i].Name != cidr.Name {
			others = append(others, prefixes(&cidrs.Items[i])...)
		}
	}
	var ips networkingv1.IPAddressList
	ofServices := client.MatchingLabels{networkingv1.LabelManagedBy: allocator}
	if err := r.Client.List(ctx, &ips, ofServices, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing IP addresses: %w", err)
	}
	var used []netip.Addr
	for i := range ips.Items {
		if ip, err := netip.ParseAddr(ips.Items[i].Name); err == nil {
			used = append(used, ip)
		}
	}
	return orphans(prefixes(cidr), others, used), nil
}

func (r *Reconciler) patch(ctx context.Context, cidr *networkingv1.ServiceCIDR, change func(client.Object, string) bool) error {
	before := cidr.DeepCopy()
	change(cidr, Finalizer)
	if err := r.Client.Patch(ctx, cidr, client.StrategicMergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing the finalizer of service CIDR %q: %w", cidr.Name, err)
	}
	return nil
}

// tell sets the condition Ready if it says something else.
func (r *Reconciler) tell(
	ctx context.Context, cidr *networkingv1.ServiceCIDR, status metav1.ConditionStatus, reason, message string,
) error {
	now := meta.FindStatusCondition(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if now != nil && now.Status == status && now.Reason == reason && now.Message == message {
		return nil
	}
	condition := applymetav1.Condition().WithType(networkingv1.ServiceCIDRConditionReady).
		WithStatus(status).WithReason(reason).WithMessage(message).WithLastTransitionTime(metav1.NewTime(r.Clock.Now()))
	wanted := applynetworkingv1.ServiceCIDRStatus().WithConditions(condition)
	if err := setup.ApplyStatus(ctx, r.Client, cidr, applynetworkingv1.ServiceCIDR(cidr.Name).WithStatus(wanted), fieldOwner); err != nil {
		return fmt.Errorf("updating the condition of service CIDR %q: %w", cidr.Name, err)
	}
	return nil
}
