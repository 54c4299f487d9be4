// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// Reconcile takes the next step with the pods of the set, then, if none has to be waited for, the next one of an update.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	set := &appsv1.StatefulSet{}
	if err := r.Client.Get(ctx, req.NamespacedName, set); err != nil {
		if apierrors.IsNotFound(err) {
			forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := selectorOf(set)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("parsing the selector of stateful set %q: %w", req, err))
	}
	claimed, err := r.pods(ctx, set, selector)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	if set.DeletionTimestamp != nil {
		// The garbage collector takes everything down; what was made now would be in its way.
		return reconcile.Result{}, r.writeStatus(ctx, set, Status(set, known(set), claimed, nil, now))
	}
	revisions, err := r.revisions(ctx, set, selector)
	if err != nil {
		return reconcile.Result{}, err
	}
	leaving, err := r.step(ctx, set, revisions, claimed, now)
	status := Status(set, revisions, claimed, leaving, now)
	err = errors.Join(err, r.writeStatus(ctx, set, status), r.cleanUp(ctx, set, revisions, claimed))
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: pods.NextAvailable(claimed, set.Spec.MinReadySeconds, now)}, nil
}

// pods claims the pods of the set; they belong to the cache.
func (r *Reconciler) pods(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) ([]*corev1.Pod, error) {
	candidates, err := pods.Candidates(ctx, r.Client, set, selector)
	if err != nil {
		return nil, err
	}
	owner := adoption.Owner{
		Object: set, Kind: kind, Selector: selector, Client: r.Client, Live: r.Live,
		Accepts: func(pod metav1.Object) bool { return isMember(set, pod) },
	}
	return adoption.All(ctx, owner, candidates)
}

// step brings the set nearer to what it should be and returns the pods deleted for an update.
func (r *Reconciler) step(ctx context.Context, set *appsv1.StatefulSet, revisions Revisions, claimed []*corev1.Pod, now time.Time) (leaving []*corev1.Pod, err error) {
	members := Arrange(set, revisions, claimed)
	countUnavailable(set, members.Replicas, now)
	plan := Manage(set, members, now)
	for _, steps := range [][]Step{plan.Replicas, plan.Condemned} {
		if err := r.carryOut(ctx, set, steps); err != nil {
			return nil, err
		}
	}
	if !plan.Complete {
		return nil, nil
	}
	old, err := Roll(set, members.Replicas, revisions.Update.Name, now)
	if err != nil {
		return nil, err
	}
	for _, pod := range old {
		if err := r.delete(ctx, set, pod); err != nil {
			return leaving, err
		}
		leaving = append(leaving, pod)
	}
	return leaving, nil
}

// carryOut takes the steps one after the other, or all at once if the set is parallel.
func (r *Reconciler) carryOut(ctx context.Context, set *appsv1.StatefulSet, steps []Step) error {
	take := func(i int) error {
		for _, action := range steps[i].Actions {
			if err := r.act(ctx, set, steps[i].Pod, action); err != nil {
				return err
			}
		}
		return nil
	}
	if isParallel(set) {
		_, err := pods.SlowStart(len(steps), take)
		return err
	}
	for i := range steps {
		if err := take(i); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) act(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, action Action) error {
	switch action {
	case Create:
		return r.create(ctx, set, pod)
	case Provide:
		return r.provide(ctx, set, pod)
	case Settle:
		return r.settle(ctx, set, pod)
	case Release:
		_, err := r.own(ctx, set, pod)
		return err
	case Delete:
		return r.delete(ctx, set, pod)
	}
	return nil
}

// create creates a pod and, before it, its claims. While an old claim is about to go it does nothing: the set is looked at
// again when that is gone.
func (r *Reconciler) create(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	if err := r.checkDoomed(ctx, set, pod); err != nil {
		if errors.Is(err, errDoomed) {
			return nil
		}
		return err
	}
	err := r.provide(ctx, set, pod)
	if err == nil {
		err = r.Client.Create(ctx, pod.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	r.tell(set, pod, "Create", err)
	return err
}

// settle puts right what somebody else has changed in the pod, and the owners of its claims.
func (r *Reconciler) settle(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	changed, err := r.own(ctx, set, pod)
	if err == nil && (!isIdentified(pod) || !hasClaims(set, pod)) {
		changed = true
		pod = pod.DeepCopy()
		identify(pod)
		mountClaims(set, pod)
		if err = r.provide(ctx, set, pod); err == nil {
			err = r.Client.Update(ctx, pod)
		}
	}
	if changed || err != nil {
		r.tell(set, pod, "Update", err)
	}
	return err
}

// delete deletes this very pod, not one of the same name that took its place.
func (r *Reconciler) delete(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	err := r.Client.Delete(ctx, pod.DeepCopy(), client.Preconditions{UID: &pod.UID})
	if apierrors.IsConflict(err) {
		return err
	}
	err = client.IgnoreNotFound(err)
	r.tell(set, pod, "Delete", err)
	return err
}

// tell records what became of creating, updating or deleting a pod.
func (r *Reconciler) tell(set *appsv1.StatefulSet, pod *corev1.Pod, verb string, err error) {
	if err != nil {
		r.Events.Eventf(set, corev1.EventTypeWarning, "Failed"+verb, "%s Pod %s in StatefulSet %s failed error: %s", verb, pod.Name, set.Name, err)
		return
	}
	r.Events.Eventf(set, corev1.EventTypeNormal, "Successful"+verb, "%s Pod %s in StatefulSet %s successful", verb, pod.Name, set.Name)
}

// writeStatus writes the status if it differs.
func (r *Reconciler) writeStatus(ctx context.Context, set *appsv1.StatefulSet, status appsv1.StatefulSetStatus) error {
	if equality.Semantic.DeepEqual(set.Status, status) {
		return nil
	}
	set.Status = status
	if err := r.Client.Status().Update(ctx, set); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("error storing status for StatefulSet %q: %w", set.Name, err)
	}
	return nil
}
