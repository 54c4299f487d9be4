// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package tainteviction deletes pods from nodes with a NoExecute taint that they do not tolerate, at once or when their
// tolerationSeconds are over. Touch it when a pod leaves a node too early or too late.
package tainteviction

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/pods"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Reconciler works on one pod at a time.
type Reconciler struct {
	Client client.Client
	Events record.EventRecorder
	Clock  clock.PassiveClock

	mu sync.Mutex
	// timers is guarded by mu: until when a pod (by name) is tolerated, of those that are so for a while only.
	timers map[types.NamespacedName]timer
}

type timer struct {
	uid types.UID
	end time.Time
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	r := &Reconciler{Client: env.Client, Events: env.Events, Clock: env.Clock}
	tainted := predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1.Node)
			after, ok2 := e.ObjectNew.(*corev1.Node)
			return ok1 && ok2 && !equality.Semantic.DeepEqual(noExecute(before), noExecute(after))
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	assigned := func(obj client.Object) bool { return obj.(*corev1.Pod).Spec.NodeName != "" }
	moved := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return assigned(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return assigned(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1.Pod)
			after, ok2 := e.ObjectNew.(*corev1.Pod)
			return ok1 && ok2 && (before.Spec.NodeName != after.Spec.NodeName || !equality.Semantic.DeepEqual(before.Spec.Tolerations, after.Spec.Tolerations))
		},
	}
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Pod{}, builder.WithPredicates(moved)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.podsOn), builder.WithPredicates(tainted)).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

// podsOn maps a node to its pods.
func (r *Reconciler) podsOn(ctx context.Context, node client.Object) []reconcile.Request {
	return ownwrites.EnqueueFor(ctx, r.Client, &corev1.PodList{}, func(*corev1.Pod) bool { return true }, client.MatchingFields{pods.NodeField: node.GetName()})
}

// Reconcile evicts the pod in req when its time on its node is over.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Client.Get(ctx, req.NamespacedName, pod, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.cancel(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		r.stop(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	taints := noExecute(node)
	limit, forever := Tolerance(taints, pod.Spec.Tolerations)
	if forever {
		r.cancel(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	now := r.Clock.Now()
	if limit > 0 {
		if left := r.end(req.NamespacedName, pod, taints, limit, now).Sub(now); left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
	} else {
		r.cancel(req.NamespacedName) // it is not to wait for its time
	}
	if err := r.evict(ctx, pod, now); err != nil {
		return reconcile.Result{}, err
	}
	r.stop(req.NamespacedName)
	return reconcile.Result{}, nil
}

// end returns until when the pod is tolerated, remembering it. While it waits, further taints that it tolerates for a while and other
// tolerationSeconds change nothing, as upstream: a taint that is new would else have had its time before it came.
func (r *Reconciler) end(key types.NamespacedName, pod *corev1.Pod, taints []corev1.Taint, limit time.Duration, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, ok := r.timers[key]; ok && t.uid == pod.UID {
		return t.end
	}
	if r.timers == nil {
		r.timers = map[types.NamespacedName]timer{}
	}
	// From here on it counts by the clock of this process, which nobody can set.
	t := timer{uid: pod.UID, end: now.Add(since(pod, taints, now).Sub(now) + limit)}
	r.timers[key] = t
	return t.end
}

// stop forgets the pod's timer; ok tells whether one ran.
func (r *Reconciler) stop(key types.NamespacedName) (t timer, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok = r.timers[key]
	delete(r.timers, key)
	return t, ok
}

// cancel stops the pod's timer, and says so if one ran.
func (r *Reconciler) cancel(key types.NamespacedName) {
	if t, ok := r.stop(key); ok {
		ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: key.Namespace, Name: key.Name, UID: t.uid}
		r.Events.Eventf(ref, corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod %s", key.String())
	}
}

// evict says in the pod's status why it goes, and deletes it.
func (r *Reconciler) evict(ctx context.Context, pod *corev1.Pod, now time.Time) error {
	r.Events.Eventf(pods.Reference(pod), corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s/%s", pod.Namespace, pod.Name)
	return pods.Evict(ctx, r.Client, pod, corev1.PodCondition{
		ObservedGeneration: pod.Generation,
		LastTransitionTime: metav1.NewTime(now),
		Reason:             "DeletionByTaintManager",
		Message:            "Taint manager: deleting due to NoExecute taint",
	})
}
