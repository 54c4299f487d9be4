// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package replicaset keeps the number of pods of a ReplicaSet at its replicas. Touch it when pods are created or deleted
// wrongly, or when a number in the status is off.
package replicaset

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/claim"
	"minik8s.io/minik8s/pkg/controllers/pods"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

var kind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// Reconciler works on one ReplicaSet at a time. Its client has to return what it wrote before (setup.Env.Client does), so
// that a pod just created is not created again.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events record.EventRecorder
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	r := &Reconciler{Client: env.Client, Live: env.Live, Events: env.Events, Clock: env.Clock}
	orphan := predicate.NewPredicateFuncs(func(obj client.Object) bool { return metav1.GetControllerOfNoCopy(obj) == nil })
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&appsv1.ReplicaSet{}).
		Owns(&corev1.Pod{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.selecting), builder.WithPredicates(orphan)).
		WithOptions(env.Options()).
		Complete(r)
}

// selecting maps an orphaned pod to the ReplicaSets which may adopt it.
func (r *Reconciler) selecting(ctx context.Context, pod client.Object) []reconcile.Request {
	if len(pod.GetLabels()) == 0 {
		return nil
	}
	var list appsv1.ReplicaSetList
	if err := r.Client.List(ctx, &list, client.InNamespace(pod.GetNamespace()), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing replica sets")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		selector, err := metav1.LabelSelectorAsSelector(list.Items[i].Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.GetLabels())) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile claims the pods of the ReplicaSet in req, creates or deletes pods and writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rs := &appsv1.ReplicaSet{}
	if err := r.Client.Get(ctx, req.NamespacedName, rs); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		// Validation rejects such a selector; trying again cannot help.
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("parsing the selector of replica set %q: %w", req, err))
	}
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(rs.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing pods: %w", err)
	}
	owner := claim.Owner{Object: rs, Kind: kind, Selector: selector, Client: r.Client, Live: r.Live}
	active, err := claim.All(ctx, owner, pods.Pointers(list.Items, pods.IsActive))
	if err != nil {
		return reconcile.Result{}, err
	}
	terminating := pods.Pointers(list.Items, func(pod *corev1.Pod) bool {
		return pods.IsTerminating(pod) && claim.Decide(rs, pod, selector) == claim.Keep
	})

	var scaleErr error
	if rs.DeletionTimestamp == nil {
		scaleErr = r.scale(ctx, rs, active, list.Items)
	}
	now := r.Clock.Now()
	status := Status(rs, active, len(terminating), scaleErr, now)
	if !equality.Semantic.DeepEqual(rs.Status, status) {
		rs.Status = status
		if err := r.Client.Status().Update(ctx, rs); err != nil && scaleErr == nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	if scaleErr != nil {
		return reconcile.Result{}, scaleErr
	}
	return reconcile.Result{RequeueAfter: nextAvailable(active, rs.Spec.MinReadySeconds, now)}, nil
}

// scale brings the number of active pods to the wanted one.
func (r *Reconciler) scale(ctx context.Context, rs *appsv1.ReplicaSet, active []*corev1.Pod, namespacePods []corev1.Pod) error {
	control := pods.Control{Client: r.Client, Events: r.Events}
	create, remove := Step(len(active), replicas(rs))
	if create > 0 {
		ref := *metav1.NewControllerRef(rs, kind)
		_, err := pods.SlowStart(create, func(int) error {
			err := control.Create(ctx, rs, pods.FromTemplate(&rs.Spec.Template, rs, ref))
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil
			}
			return err
		})
		return err
	}
	if remove == 0 {
		return nil
	}
	related, err := r.related(ctx, rs, namespacePods)
	if err != nil {
		return err
	}
	victims := slices.Clone(active)
	pods.SortForDeletion(victims, related, r.Clock.Now())
	var firstErr error
	for _, pod := range victims[:remove] {
		if err := control.Delete(ctx, rs, pod); err != nil && firstErr == nil {
			firstErr = err
		}
	}
	return firstErr
}

// related counts, per node, the active pods of this ReplicaSet and of those with the same controller, so that scaling
// down an old ReplicaSet of a Deployment frees the nodes where the new one already runs.
func (r *Reconciler) related(ctx context.Context, rs *appsv1.ReplicaSet, namespacePods []corev1.Pod) (map[string]int, error) {
	family := map[string]bool{string(rs.UID): true}
	if ref := metav1.GetControllerOfNoCopy(rs); ref != nil {
		var list appsv1.ReplicaSetList
		if err := r.Client.List(ctx, &list, client.InNamespace(rs.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing related replica sets: %w", err)
		}
		for i := range list.Items {
			if other := metav1.GetControllerOfNoCopy(&list.Items[i]); other != nil && other.UID == ref.UID {
				family[string(list.Items[i].UID)] = true
			}
		}
	}
	count := map[string]int{}
	for i := range namespacePods {
		pod := &namespacePods[i]
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && family[string(ref.UID)] && pods.IsActive(pod) {
			count[pod.Spec.NodeName]++
		}
	}
	return count, nil
}

// nextAvailable is the time until the next ready pod has been ready for long enough; 0 when there is none to wait for.
func nextAvailable(active []*corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	var next time.Duration
	for _, pod := range active {
		if wait, ok := pods.AvailableIn(pod, minReadySeconds, now); ok && wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}
