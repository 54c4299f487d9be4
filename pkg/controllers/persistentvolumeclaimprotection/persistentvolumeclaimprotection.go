// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolumeclaimprotection keeps a PersistentVolumeClaim that was deleted while a pod on a node uses it, and
// notes since when no pod has. Touch it when claims go too early or stay.
package persistentvolumeclaimprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/internal/protection"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Finalizer is what a protected claim has.
const Finalizer = "kubernetes.io/pvc-protection"

// Reconciler protects one claim.
type Reconciler struct {
	Client client.Client
	// Live is asked before a claim goes, or is said to be unused: the cache may miss a pod that was bound just now.
	Live  client.Reader
	Clock clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.PersistentVolumeClaim{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(claims), builder.WithPredicates(predicate.NewPredicateFuncs(usesAny))).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Live: env.Live, Clock: env.Clock}))
}

// claims are those that a pod uses or used.
func claims(_ context.Context, obj client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for name := range used(obj.(*corev1.Pod)) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}})
	}
	return requests
}

// usesAny tells whether a pod uses claims, which cannot change.
func usesAny(obj client.Object) bool {
	return slices.ContainsFunc(obj.(*corev1.Pod).Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// Reconcile looks at the claim in req.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var claim corev1.PersistentVolumeClaim
	if err := r.Client.Get(ctx, req.NamespacedName, &claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound {
		if err := r.note(ctx, &claim); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	return reconcile.Result{}, protection.Keep(ctx, r.Client, &claim, Finalizer, func(ctx context.Context) (bool, error) {
		users, err := pods.WithClaim(ctx, r.Client, claim.Namespace, claim.Name)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(users, func(p *corev1.Pod) bool { return uses(p, &claim) }) {
			return true, nil
		}
		return r.anyLive(ctx, &claim, uses)
	})
}

// anyLive asks the API server for a pod of the claim's namespace of which is says so.
func (r *Reconciler) anyLive(ctx context.Context, claim *corev1.PersistentVolumeClaim, is func(*corev1.Pod, *corev1.PersistentVolumeClaim) bool) (bool, error) {
	var list corev1.PodList
	if err := r.Live.List(ctx, &list, client.InNamespace(claim.Namespace)); err != nil {
		return false, fmt.Errorf("listing pods: %w", err)
	}
	for i := range list.Items {
		if is(&list.Items[i], claim) {
			return true, nil
		}
	}
	return false, nil
}

// uses tells whether a pod needs the claim: a pod without a node does not, as no kubelet starts it once the claim is
// deleted, and the claim of an ephemeral volume is needed until the kubelet is done with its pod.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	volume, ok := used(pod)[claim.Name]
	if !ok {
		return false
	}
	done := pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 1) == 0
	return volume.PersistentVolumeClaim != nil || !done && ephemeral.VolumeIsForPod(pod, claim) == nil
}

// used maps the names of the claims of a pod to its volumes.
func used(pod *corev1.Pod) map[string]*corev1.Volume {
	names := map[string]*corev1.Volume{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if name := pods.ClaimOf(pod, v); name != "" {
			names[name] = v
		}
	}
	return names
}
