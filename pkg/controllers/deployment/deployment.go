// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package deployment rolls a Deployment's pod template out: one ReplicaSet per template, the new one growing while the old
// ones shrink. Touch it when a rollout takes a wrong step (rolling.go), a revision is off (revision.go, rollback.go) or kubectl
// rollout status disagrees with what one sees (progress.go).
package deployment

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/internal/deletion"
	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

var kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Reconciler works on one Deployment at a time. It has to be behind a setup.Env.Barrier.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events record.EventRecorder
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	r := &Reconciler{Client: env.Client, Live: env.Live, Events: env.Events, Clock: env.Clock}
	selecting := adoption.Selecting(env.Client, func() client.ObjectList { return &appsv1.DeploymentList{} }, selectorOf)
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&appsv1.Deployment{}).
		Owns(&appsv1.ReplicaSet{}).
		Watches(&appsv1.ReplicaSet{}, handler.EnqueueRequestsFromMapFunc(selecting), builder.WithPredicates(adoption.Orphans())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.recreating), builder.WithPredicates(deletion.Only())).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

func selectorOf(d *appsv1.Deployment) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(d.Spec.Selector)
}

// recreating maps a pod that is gone to its Deployment if that waits, with strategy Recreate, for its last old pod.
func (r *Reconciler) recreating(ctx context.Context, pod client.Object) []reconcile.Request {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "ReplicaSet" {
		return nil
	}
	var rs appsv1.ReplicaSet
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: pod.GetNamespace(), Name: ref.Name}, &rs, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(&rs)
	if owner == nil || owner.Kind != kind.Kind {
		return nil
	}
	key := types.NamespacedName{Namespace: pod.GetNamespace(), Name: owner.Name}
	var d appsv1.Deployment
	if err := r.Client.Get(ctx, key, &d, client.UnsafeDisableDeepCopy); err != nil || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// Reconcile takes the next step of the Deployment in req. A step that changes a ReplicaSet ends the pass: the change comes
// back as an event, and with it the next step.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	d := &appsv1.Deployment{}
	if err := r.Client.Get(ctx, req.NamespacedName, d); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("parsing the selector of deployment %q: %w", req, err))
	}
	if selector.Empty() {
		return reconcile.Result{}, r.refuse(ctx, d)
	}
	all, err := r.replicaSets(ctx, d, selector)
	if err != nil {
		return reconcile.Result{}, err
	}
	if d.DeletionTimestamp != nil {
		newRS := findNew(d, all)
		return reconcile.Result{}, r.writeStatus(ctx, d, countStatus(d, newRS, without(all, newRS), r.Clock.Now()))
	}
	if err := r.writeStatus(ctx, d, pausedStatus(d, r.Clock.Now())); err != nil {
		return reconcile.Result{}, err
	}
	newRS, old, err := r.syncRevision(ctx, d, all)
	if err != nil {
		return reconcile.Result{}, err
	}
	to, rolledBack := rollbackTo(d)
	switch {
	case rolledBack && !d.Spec.Paused:
		return reconcile.Result{}, r.rollback(ctx, d, newRS, old, to)
	case d.Spec.Paused, isScaled(d, all):
		return reconcile.Result{}, r.scale(ctx, d, newRS, old)
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return r.recreate(ctx, d, newRS, old)
	case isRolling(d):
		return r.roll(ctx, d, newRS, old)
	}
	return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("unexpected deployment strategy type: %s", d.Spec.Strategy.Type))
}

// refuse answers an empty selector, which would match every pod.
func (r *Reconciler) refuse(ctx context.Context, d *appsv1.Deployment) error {
	r.Events.Event(d, corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
	status := *d.Status.DeepCopy()
	status.ObservedGeneration = max(status.ObservedGeneration, d.Generation)
	return r.writeStatus(ctx, d, status)
}

// replicaSets claims the ReplicaSets of d; the ones returned may be changed by the caller.
func (r *Reconciler) replicaSets(ctx context.Context, d *appsv1.Deployment, selector labels.Selector) ([]*appsv1.ReplicaSet, error) {
	newList := func() client.ObjectList { return &appsv1.ReplicaSetList{} }
	candidates, err := adoption.Candidates[*appsv1.ReplicaSet](ctx, r.Client, newList, d, selector)
	if err != nil {
		return nil, fmt.Errorf("listing replica sets: %w", err)
	}
	return adoption.All(ctx, adoption.Owner{Object: d, Kind: kind, Selector: selector, Client: r.Client, Live: r.Live}, candidates)
}

// scale resizes the ReplicaSets of a Deployment that is paused or was scaled.
func (r *Reconciler) scale(ctx context.Context, d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) error {
	for _, resize := range rescale(d, newRS, old) {
		if _, err := r.resize(ctx, d, resize); err != nil {
			return err
		}
	}
	// The revision that is to come back once the Deployment goes on must not go.
	if _, rolledBack := rollbackTo(d); d.Spec.Paused && !rolledBack {
		if err := r.cleanUp(ctx, d, old); err != nil {
			return err
		}
	}
	return r.writeStatus(ctx, d, countStatus(d, newRS, old, r.Clock.Now()))
}

// roll takes one step of a rolling update.
func (r *Reconciler) roll(ctx context.Context, d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) (reconcile.Result, error) {
	if newRS == nil {
		created, err := r.create(ctx, d, old)
		if err != nil || created == nil {
			return reconcile.Result{}, err
		}
		newRS = created
	}
	if resize, ok := growNew(d, newRS, old); ok {
		if _, err := r.resize(ctx, d, resize); err != nil {
			return reconcile.Result{}, err
		}
		return r.finish(ctx, d, newRS, old)
	}
	if resizes := shrinkOld(d, newRS, old); len(resizes) > 0 {
		for _, resize := range resizes {
			if _, err := r.resize(ctx, d, resize); err != nil {
				return reconcile.Result{}, err
			}
		}
		return r.finish(ctx, d, newRS, old)
	}
	return r.complete(ctx, d, newRS, old)
}

// recreate takes one step of a rollout that stops all old pods before it starts the first new one.
func (r *Reconciler) recreate(ctx context.Context, d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) (reconcile.Result, error) {
	scaled := false
	for _, rs := range old {
		changed := false
		if isActive(rs) {
			var err error
			if changed, err = r.resize(ctx, d, Resize{rs, 0}); err != nil {
				return reconcile.Result{}, err
			}
		}
		scaled = scaled || changed
	}
	if scaled {
		return r.finish(ctx, d, newRS, old)
	}
	running, err := r.isRunning(ctx, d, newRS, old)
	if err != nil {
		return reconcile.Result{}, err
	}
	if running {
		return r.finish(ctx, d, newRS, old)
	}
	if newRS == nil {
		if newRS, err = r.create(ctx, d, old); err != nil || newRS == nil {
			return reconcile.Result{}, err
		}
	}
	if _, err := r.resize(ctx, d, Resize{newRS, replicas(d)}); err != nil {
		return reconcile.Result{}, err
	}
	return r.complete(ctx, d, newRS, old)
}

// isRunning reports whether a pod of d that is not of the new ReplicaSet may still be running. An old ReplicaSet may know of pods which
// the cache does not have yet.
func (r *Reconciler) isRunning(ctx context.Context, d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) (bool, error) {
	if sum(old, actual) > 0 {
		return true, nil
	}
	sets, err := ownwrites.Peek[*appsv1.ReplicaSet](ctx, r.Client, &appsv1.ReplicaSetList{}, index.ControlledBy(d.Namespace, d.UID))
	if err != nil {
		return false, fmt.Errorf("listing replica sets: %w", err)
	}
	for _, rs := range sets {
		if newRS != nil && rs.UID == newRS.UID {
			continue
		}
		owned, err := pods.OwnedBy(ctx, r.Client, d.Namespace, rs.UID)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(owned, func(pod *corev1.Pod) bool { return !pods.IsTerminal(pod) }) {
			return true, nil
		}
	}
	return false, nil
}

// complete cleans up after a finished rollout and writes the status.
func (r *Reconciler) complete(ctx context.Context, d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) (reconcile.Result, error) {
	if isComplete(d, &d.Status) {
		if err := r.cleanUp(ctx, d, old); err != nil {
			return reconcile.Result{}, err
		}
	}
	return r.finish(ctx, d, newRS, old)
}

// finish writes the status of a rollout.
func (r *Reconciler) finish(ctx context.Context, d *appsv1.Deployment, newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) (reconcile.Result, error) {
	status, recheck := rolloutStatus(d, newRS, old, r.Clock.Now())
	return reconcile.Result{RequeueAfter: recheck}, r.writeStatus(ctx, d, status)
}

// writeStatus writes the status if it differs; d carries it afterwards.
func (r *Reconciler) writeStatus(ctx context.Context, d *appsv1.Deployment, status appsv1.DeploymentStatus) error {
	if equality.Semantic.DeepEqual(d.Status, status) {
		return nil
	}
	d.Status = status
	if err := r.Client.Status().Update(ctx, d); err != nil {
		return client.IgnoreNotFound(err)
	}
	return nil
}

// now is the time conditions are stamped with.
func (r *Reconciler) now() time.Time { return r.Clock.Now() }
