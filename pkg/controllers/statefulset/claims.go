// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// eachClaim calls do with the claims of the pod that exist; they belong to the cache. missing, if not nil, is called with
// what the others should be.
func (r *Reconciler) eachClaim(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, do, missing func(*corev1.PersistentVolumeClaim) error) error {
	var errs []error
	for _, wanted := range claimsOf(set, pod) {
		claim := &corev1.PersistentVolumeClaim{}
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), claim, client.UnsafeDisableDeepCopy)
		switch {
		case err == nil:
			err = do(claim)
		case apierrors.IsNotFound(err):
			err = nil
			if missing != nil {
				err = missing(wanted)
			}
		default:
			err = fmt.Errorf("failed to retrieve PVC %s: %w", wanted.Name, err)
		}
		errs = append(errs, err)
	}
	return utilerrors.NewAggregate(errs)
}

// provide creates the claims that the pod lacks, and tells of those that are somebody else's. It fails if one is about to go.
func (r *Reconciler) provide(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	there := func(claim *corev1.PersistentVolumeClaim) error {
		if claim.DeletionTimestamp != nil {
			return fmt.Errorf("pvc %s is being deleted", claim.Name)
		}
		if own := Own(set, pod, claim); own.Conflict && !own.Change {
			r.tellOfConflict(set, claim)
		}
		return nil
	}
	return r.eachClaim(ctx, set, pod, there, func(claim *corev1.PersistentVolumeClaim) error {
		claim.OwnerReferences = Own(set, pod, claim).References
		err := r.Client.Create(ctx, claim)
		if !apierrors.IsAlreadyExists(err) {
			r.tellOfClaim(set, pod, claim, err)
		}
		if err != nil {
			return fmt.Errorf("failed to create PVC %s: %w", claim.Name, err)
		}
		return nil
	})
}

// own puts the owners of the pod's claims right and reports whether they were wrong.
func (r *Reconciler) own(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) (changed bool, err error) {
	err = r.eachClaim(ctx, set, pod, func(claim *corev1.PersistentVolumeClaim) error {
		own := Own(set, pod, claim)
		if !own.Change {
			return nil
		}
		changed = true
		if own.Conflict {
			r.tellOfConflict(set, claim)
		}
		claim = claim.DeepCopy()
		claim.OwnerReferences = own.References
		if err := r.Client.Update(ctx, claim); err != nil {
			return fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", claim.Name, err)
		}
		return nil
	}, nil)
	return changed, err
}

var errDoomed = errors.New("a claim of the name goes first")

// checkDoomed returns errDoomed while a claim of the pod goes with an earlier pod of the same name.
func (r *Reconciler) checkDoomed(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	doomed := false
	err := r.eachClaim(ctx, set, pod, func(claim *corev1.PersistentVolumeClaim) error {
		doomed = doomed || isDoomed(set, pod, claim)
		return nil
	}, nil)
	if err == nil && doomed {
		return errDoomed
	}
	return err
}

// tellOfConflict says, in upstream's spelling, that the retention policy does not hold for a claim.
func (r *Reconciler) tellOfConflict(set *appsv1.StatefulSet, claim *corev1.PersistentVolumeClaim) {
	r.Events.Eventf(set, corev1.EventTypeWarning, "ConflictingController",
		"PersistentVolumeClaim %s has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim", claim.Name)
}

func (r *Reconciler) tellOfClaim(set *appsv1.StatefulSet, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, err error) {
	if err != nil {
		r.Events.Eventf(set, corev1.EventTypeWarning, "FailedCreate", "Create Claim %s for Pod %s in StatefulSet %s failed error: %s", claim.Name, pod.Name, set.Name, err)
		return
	}
	r.Events.Eventf(set, corev1.EventTypeNormal, "SuccessfulCreate", "Create Claim %s Pod %s in StatefulSet %s success", claim.Name, pod.Name, set.Name)
}
