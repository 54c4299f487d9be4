// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ClaimReconciler takes a claim back from those who do not need it any more.
type ClaimReconciler struct {
	Client client.Client
	// Live is asked for a pod that the cache does not have: the scheduler may have reserved the claim for one that is new.
	Live client.Reader
}

// Reconcile looks at the claim in req.
func (r *ClaimReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &resourcev1.ResourceClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var remaining []resourcev1.ResourceClaimConsumerReference
	for _, consumer := range claim.Status.ReservedFor {
		needed, err := r.needed(ctx, claim.Namespace, consumer)
		if err != nil {
			return reconcile.Result{}, err
		}
		if needed {
			remaining = append(remaining, consumer)
		}
	}
	if err := r.release(ctx, claim, remaining); err != nil {
		return reconcile.Result{}, fmt.Errorf("releasing claim %q: %w", req, err)
	}
	if len(remaining) > 0 {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.deleteUnused(ctx, claim)
}

// needed tells whether a consumer of a claim still needs it. Consumers of unknown kinds always do.
func (r *ClaimReconciler) needed(ctx context.Context, namespace string, consumer resourcev1.ResourceClaimConsumerReference) (bool, error) {
	if consumer.APIGroup != "" || consumer.Resource != "pods" {
		return true, nil
	}
	var pod corev1.Pod
	key := client.ObjectKey{Namespace: namespace, Name: consumer.Name}
	err := r.Client.Get(ctx, key, &pod)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, &pod)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for pod %q: %w", consumer.Name, err)
	}
	return pod.UID == consumer.UID && !isDone(&pod), nil
}

// release writes who the claim remains reserved for. Without consumers it loses its devices, and the finalizer that stands for
// them. The writes fail if the claim has changed since it was read.
func (r *ClaimReconciler) release(ctx context.Context, claim *resourcev1.ResourceClaim, remaining []resourcev1.ResourceClaimConsumerReference) error {
	fewer := len(remaining) < len(claim.Status.ReservedFor)
	held := slices.Contains(claim.Finalizers, resourcev1.Finalizer)
	// A claim that nobody has used yet keeps what a driver has given to it, unless it is deleted.
	idle := held && len(remaining) == 0 && (fewer || claim.DeletionTimestamp != nil)
	if fewer || idle && claim.Status.Allocation != nil {
		claim.Status.ReservedFor = remaining
		if idle {
			claim.Status.Allocation = nil
		}
		if err := r.Client.Status().Update(ctx, claim); err != nil {
			return err
		}
	}
	if !idle || !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
		return nil
	}
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
	return r.Client.Update(ctx, claim)
}

// deleteUnused deletes a claim that was made for a pod which has ended; the garbage collector would wait until the pod is gone.
func (r *ClaimReconciler) deleteUnused(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.APIVersion != "v1" || owner.Kind != "Pod" || claim.DeletionTimestamp != nil {
		return nil
	}
	var pod corev1.Pod
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: owner.Name}, &pod); err != nil {
		// A pod that is gone, or not known yet, is the garbage collector's.
		return client.IgnoreNotFound(err)
	}
	if pod.UID == owner.UID && !isDone(&pod) {
		return nil
	}
	if err := r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete unused generated claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
