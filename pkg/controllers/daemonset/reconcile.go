// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

package daemonset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/internal/history"
	"minik8s.io/minik8s/pkg/controllers/internal/pods"
)

// burst is the largest number of pods created, and of those deleted, in one step.
const burst = 250

// state is what a pass decides on.
type state struct {
	ds       *appsv1.DaemonSet
	selector labels.Selector
	hash     string
	nodes    []Node
}

// Reconcile gives each node its pod, then takes a step of the rollout, and writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ds := &appsv1.DaemonSet{}
	if err := r.Client.Get(ctx, req.NamespacedName, ds); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := selectorOf(ds)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("parsing the selector of daemon set %q: %w", req, err))
	}
	if selector.Empty() {
		r.Events.Event(ds, corev1.EventTypeWarning, "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return reconcile.Result{}, nil
	}
	if ds.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	revisions, err := r.syncHistory(ctx, ds, selector)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("failed to construct revisions of DaemonSet: %w", err)
	}
	nodes, err := r.nodes(ctx, ds)
	if err != nil {
		return reconcile.Result{}, err
	}
	s := state{ds: ds, selector: selector, hash: revisions.Current.Labels[history.HashLabel], nodes: nodes}
	wait, err := r.update(ctx, s, revisions.Old)
	recheck, statusErr := r.writeStatus(ctx, s)
	if err := errors.Join(err, statusErr); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: sooner(wait, recheck)}, nil
}

// nodes returns all nodes with what they mean to the DaemonSet.
func (r *Reconciler) nodes(ctx context.Context, ds *appsv1.DaemonSet) ([]Node, error) {
	var list corev1.NodeList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("couldn't get list of nodes when syncing DaemonSet %q: %w", ds.Name, err)
	}
	eligibility := NewEligibility(ds)
	nodes := make([]Node, len(list.Items))
	for i := range list.Items {
		run, keep := eligibility.Of(klog.FromContext(ctx), &list.Items[i])
		nodes[i] = Node{Name: list.Items[i].Name, ShouldRun: run, ShouldKeep: keep}
	}
	return nodes, nil
}

// pods claims the pods of the DaemonSet; they belong to the cache.
func (r *Reconciler) pods(ctx context.Context, ds *appsv1.DaemonSet, selector labels.Selector) ([]*corev1.Pod, error) {
	candidates, err := pods.Candidates(ctx, r.Client, ds, selector)
	if err != nil {
		return nil, err
	}
	return adoption.All(ctx, adoption.Owner{Object: ds, Kind: kind, Selector: selector, Client: r.Client, Live: r.Live}, candidates)
}

// update creates and deletes pods and revisions; wait is when a failed pod may be replaced. A pass that has changed pods to
// suit the nodes leaves the rollout to the next one, which those changes bring about.
func (r *Reconciler) update(ctx context.Context, s state, old []*appsv1.ControllerRevision) (wait time.Duration, err error) {
	claimed, err := r.pods(ctx, s.ds, s.selector)
	if err != nil {
		return 0, fmt.Errorf("couldn't get node to daemon pod mapping for DaemonSet %q: %w", s.ds.Name, err)
	}
	byNode := ByNode(claimed)
	plan := Manage(s.ds, s.nodes, byNode, s.hash, r.backoff(s.ds), r.Clock.Now())
	if err := r.apply(ctx, s, plan); err != nil {
		return 0, err
	}
	if plan.Empty() && s.ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		step, err := Roll(s.ds, s.nodes, byNode, s.hash, r.Clock.Now())
		if err != nil {
			return 0, err
		}
		if err := r.apply(ctx, s, step); err != nil {
			return 0, err
		}
	}
	if err := r.cleanUp(ctx, s.ds, claimed, old); err != nil {
		return 0, fmt.Errorf("failed to clean up revisions of DaemonSet: %w", err)
	}
	return plan.Wait, nil
}

// backoff returns the memory of failures of a DaemonSet: how long to wait before the failed pod on a node is replaced. An
// answer of 0 counts as a replacement.
func (r *Reconciler) backoff(ds *appsv1.DaemonSet) func(node string) time.Duration {
	return func(node string) time.Duration {
		key := fmt.Sprintf("%s/%d/%s", ds.UID, ds.Status.ObservedGeneration, node)
		now := r.Clock.Now()
		if r.FailedPods.IsInBackOffSinceUpdate(key, now) {
			return r.FailedPods.Get(key)
		}
		r.FailedPods.Next(key, now)
		return 0
	}
}

// apply carries a plan out.
func (r *Reconciler) apply(ctx context.Context, s state, plan Plan) error {
	for _, note := range plan.Notes {
		r.Events.Event(s.ds, note.Type, note.Reason, note.Message)
	}
	control := pods.Control{Client: r.Client, Events: r.Events}
	template := PodTemplate(s.ds, s.hash)
	ref := *metav1.NewControllerRef(s.ds, kind)
	create := plan.Create[:min(len(plan.Create), burst)]
	_, err := pods.SlowStart(len(create), func(i int) error {
		pod := pods.FromTemplate(template, s.ds, ref)
		pod.Spec.Affinity = Pin(pod.Spec.Affinity, create[i])
		err := control.Create(ctx, s.ds, pod)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return err
	})
	errs := []error{err}
	for _, pod := range plan.Delete[:min(len(plan.Delete), burst)] {
		errs = append(errs, control.Delete(ctx, s.ds, pod))
	}
	return errors.Join(errs...)
}

// writeStatus counts the pods anew and writes the status if it differs.
func (r *Reconciler) writeStatus(ctx context.Context, s state) (recheck time.Duration, err error) {
	claimed, err := r.pods(ctx, s.ds, s.selector)
	if err != nil {
		return 0, fmt.Errorf("couldn't get node to daemon pod mapping for DaemonSet %q: %w", s.ds.Name, err)
	}
	status, recheck := Status(s.ds, s.nodes, ByNode(claimed), s.hash, r.Clock.Now())
	if equality.Semantic.DeepEqual(s.ds.Status, status) {
		return recheck, nil
	}
	s.ds.Status = status
	if err := r.Client.Status().Update(ctx, s.ds); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("error storing status for DaemonSet %q: %w", s.ds.Name, err)
	}
	return recheck, nil
}

// syncHistory finds or makes the revision of the present template. Of several ones all but the newest go, after their pods
// were given to that.
func (r *Reconciler) syncHistory(ctx context.Context, ds *appsv1.DaemonSet, selector labels.Selector) (history.Revisions, error) {
	keeper := history.Keeper{Client: r.Client, Live: r.Live}
	revisions, err := keeper.Sync(ctx, history.Workload{
		Object: ds, Kind: kind, Selector: selector, Template: &ds.Spec.Template, Collisions: ds.Status.CollisionCount,
	})
	if _, ok := errors.AsType[*history.CollisionError](err); ok {
		return revisions, errors.Join(err, r.raiseCollisionCount(ctx, ds))
	}
	if err != nil || len(revisions.Duplicates) == 0 {
		return revisions, err
	}
	claimed, err := r.pods(ctx, ds, selector)
	if err != nil {
		return revisions, err
	}
	for _, duplicate := range revisions.Duplicates {
		if err := r.relabel(ctx, claimed, duplicate.Labels[history.HashLabel], revisions.Current.Labels[history.HashLabel]); err != nil {
			return revisions, err
		}
		if err := keeper.Delete(ctx, duplicate); err != nil {
			return revisions, err
		}
	}
	return revisions, nil
}

// raiseCollisionCount makes the next revision get another name. The count is only raised from what it was when the name was
// chosen.
func (r *Reconciler) raiseCollisionCount(ctx context.Context, ds *appsv1.DaemonSet) error {
	live := &appsv1.DaemonSet{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(ds), live); err != nil {
		return fmt.Errorf("reading the collision count: %w", err)
	}
	if ptr.Deref(live.Status.CollisionCount, 0) != ptr.Deref(ds.Status.CollisionCount, 0) {
		return fmt.Errorf("found a stale collision count (%d, expected %d) of DaemonSet %q while processing; will retry until it is updated",
			ptr.Deref(ds.Status.CollisionCount, 0), ptr.Deref(live.Status.CollisionCount, 0), ds.Name)
	}
	live.Status.CollisionCount = new(ptr.Deref(live.Status.CollisionCount, 0) + 1)
	if err := r.Client.Status().Update(ctx, live); err != nil {
		return fmt.Errorf("raising the collision count: %w", err)
	}
	return nil
}

// relabel moves pods from one revision to another of the same template.
func (r *Reconciler) relabel(ctx context.Context, claimed []*corev1.Pod, from, to string) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{history.HashLabel: to}}})
	if err != nil {
		return fmt.Errorf("rendering the label: %w", err)
	}
	for _, pod := range claimed {
		if from == to || pod.Labels[history.HashLabel] != from {
			continue
		}
		if err := r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, data)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("relabeling pod %q: %w", pod.Name, err)
		}
	}
	return nil
}

// cleanUp deletes the old revisions beyond revisionHistoryLimit. One that a pod was made of stays until that is gone, though the
// pod may count for nothing else any more.
func (r *Reconciler) cleanUp(ctx context.Context, ds *appsv1.DaemonSet, claimed []*corev1.Pod, old []*appsv1.ControllerRevision) error {
	live := map[string]bool{}
	for _, pod := range claimed {
		live[pod.Labels[history.HashLabel]] = true
	}
	keeper := history.Keeper{Client: r.Client, Live: r.Live}
	for _, revision := range history.Expired(old, int(ptr.Deref(ds.Spec.RevisionHistoryLimit, 10)), live) {
		if err := keeper.Delete(ctx, revision); err != nil {
			return err
		}
	}
	return nil
}

// sooner returns the shorter of two waits, where 0 means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
