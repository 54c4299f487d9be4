// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package disruption keeps the status of PodDisruptionBudgets, from which the eviction subresource learns whether one more
// pod may go. Touch it when a budget allows too much or too little (budget.go), counts the wrong pods (scale.go), or a pod
// stays marked as a disruption's target though nobody deleted it (stale.go).
package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Reconciler works on one PodDisruptionBudget at a time.
type Reconciler struct {
	Client client.Client
	// Resources tells whether a kind can be scaled.
	Resources discovery.ServerResourcesInterface
	Events    record.EventRecorder
	Clock     clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	resources, err := discovery.NewDiscoveryClientForConfigAndClient(env.RESTConfig, env.HTTPClient)
	if err != nil {
		return fmt.Errorf("creating the discovery client: %w", err)
	}
	r := &Reconciler{Client: env.Client, Resources: resources, Events: env.Events, Clock: env.Clock}
	err = ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.budgets)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name+"-stale-target").
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
			return isTarget(obj.(*corev1.Pod))
		}))).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&StaleReconciler{Client: env.Client, Clock: env.Clock}))
}

// budgets maps a pod to the budgets that select it. More than one is a mistake which makes the pod impossible to evict, so
// the pod's events tell of it.
func (r *Reconciler) budgets(ctx context.Context, pod client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, where := range index.MaySelect(pod) {
		requests = append(requests, ownwrites.EnqueueFor(ctx, r.Client, &policyv1.PodDisruptionBudgetList{}, func(budget *policyv1.PodDisruptionBudget) bool {
			selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
			return err == nil && selector.Matches(labels.Set(pod.GetLabels()))
		}, where)...)
	}
	slices.SortFunc(requests, func(a, b reconcile.Request) int { return strings.Compare(a.Name, b.Name) })
	if len(requests) > 1 {
		r.Events.Eventf(pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets", "Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.GetNamespace(), pod.GetName(), requests[0].Name)
	}
	return requests
}

// Reconcile writes the status of the budget in req. When it cannot be known, the budget allows nothing: better a drain that
// waits than a workload that breaks.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pdb := &policyv1.PodDisruptionBudget{}
	if err := r.Client.Get(ctx, req.NamespacedName, pdb); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	result, err := r.sync(ctx, pdb)
	switch {
	case err == nil, apierrors.IsConflict(err):
		// A conflict says that an eviction has just used up the budget; the next pass sees it.
		return result, err
	}
	if writeErr := r.write(ctx, pdb, Failed(pdb, err)); writeErr != nil {
		err = errors.Join(err, fmt.Errorf("closing the budget: %w", writeErr))
	}
	return reconcile.Result{}, err
}

// sync computes and writes the status.
func (r *Reconciler) sync(ctx context.Context, pdb *policyv1.PodDisruptionBudget) (reconcile.Result, error) {
	selected, err := r.pods(ctx, pdb)
	if err != nil {
		r.tell(pdb, err, "NoPods", "Failed to get pods: %v")
		return reconcile.Result{}, err
	}
	if len(selected) == 0 {
		r.Events.Eventf(pdb, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	expected, desired, err := r.expectation(ctx, pdb, selected)
	if err != nil {
		r.tell(pdb, err, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: %v")
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	disrupted := Disrupted(pdb.Status.DisruptedPods, selected, now)
	for _, pod := range disrupted.Survivors {
		// Upstream's message names the namespace twice, and so does this one.
		r.Events.Eventf(pod, corev1.EventTypeWarning, "NotDeleted", "Pod was expected by PDB %s/%s to be deleted but it wasn't", pdb.Namespace, pdb.Namespace)
	}
	status := Status(pdb, Count{Expected: expected, Desired: desired, Healthy: Healthy(selected, disrupted.Pods, now)}, disrupted.Pods)
	return reconcile.Result{RequeueAfter: disrupted.Recheck}, r.write(ctx, pdb, status)
}

// tell says in an event what keeps the status from being computed, unless the status says so already: the budget is tried again
// and again, and the same may be true for ever.
func (r *Reconciler) tell(pdb *policyv1.PodDisruptionBudget, cause error, reason, text string) {
	known := meta.FindStatusCondition(pdb.Status.Conditions, policyv1.DisruptionAllowedCondition)
	if known == nil || known.Reason != policyv1.SyncFailedReason || known.Message != cause.Error() {
		r.Events.Eventf(pdb, corev1.EventTypeWarning, reason, text, cause)
	}
}

// pods returns the pods that the budget selects; they belong to the cache.
func (r *Reconciler) pods(ctx context.Context, pdb *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("parsing the selector: %w", err)
	}
	selected, err := ownwrites.Peek[*corev1.Pod](ctx, r.Client, &corev1.PodList{}, client.InNamespace(pdb.Namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return selected, nil
}

// expectation returns how many pods there should be and how many of them have to be healthy. Only a minimum that is a plain
// number does without asking the pods' controllers.
func (r *Reconciler) expectation(ctx context.Context, pdb *policyv1.PodDisruptionBudget, selected []*corev1.Pod) (expected, desired int32, err error) {
	if !NeedsScale(&pdb.Spec) {
		return Expectation(&pdb.Spec, len(selected), 0)
	}
	scale, unmanaged, err := r.expectedScale(ctx, selected)
	if err != nil {
		return 0, 0, err
	}
	if len(unmanaged) > 0 {
		slices.Sort(unmanaged)
		ctrl.LoggerFrom(ctx).V(4).Info("Found unmanaged pods associated with this PDB", "pods", unmanaged)
		r.Events.Eventf(pdb, corev1.EventTypeWarning, "UnmanagedPods", "Pods selected by this PodDisruptionBudget (selector: %v) were found "+
			"to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
			"To account for these pods please set \".spec.minAvailable\" "+
			"field of the PDB to an integer value.", pdb.Spec.Selector)
	}
	return Expectation(&pdb.Spec, len(selected), scale)
}

// write writes the status if it differs. The write fails if an eviction has changed the budget since it was read.
func (r *Reconciler) write(ctx context.Context, pdb *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) error {
	if equality.Semantic.DeepEqual(pdb.Status, status) {
		return nil
	}
	updated := pdb.DeepCopy()
	updated.Status = status
	return client.IgnoreNotFound(r.Client.Status().Update(ctx, updated))
}
