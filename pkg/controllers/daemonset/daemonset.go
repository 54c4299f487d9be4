// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemonset runs a pod of a DaemonSet on every node that is fit for it. Touch it when a node is wrongly chosen
// (node.go), a pod wrongly made (template.go), kept or deleted (manage.go), a rollout takes a wrong step (rolling.go) or the
// status is off (status.go).
package daemonset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// A pod that fails on a node is replaced after a time that doubles with each failure, because a kubelet which rejects it
// once will do so again at once.
const (
	failedPodDelay    = time.Second
	failedPodMaxDelay = 15 * time.Minute
	forgetInterval    = time.Minute
)

// Reconciler works on one DaemonSet at a time. It has to be behind a setup.Env.Barrier, so
// that a node does not get a second pod.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events record.EventRecorder
	Clock  clock.PassiveClock
	// FailedPods remembers how often a pod failed on a node.
	FailedPods *flowcontrol.Backoff
}

// New returns a reconciler which remembers no failures.
func New(c client.Client, live client.Reader, events record.EventRecorder, clock clock.WithTicker) *Reconciler {
	backoff := flowcontrol.NewBackOff(failedPodDelay, failedPodMaxDelay)
	backoff.Clock = clock
	return &Reconciler{Client: c, Live: live, Events: events, Clock: clock, FailedPods: backoff}
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	r := New(env.Client, env.Live, env.Events, env.Clock)
	err := env.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
		ticker := env.Clock.NewTicker(forgetInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C():
				r.FailedPods.GC()
			}
		}
	}))
	if err != nil {
		return fmt.Errorf("adding the clean-up of failures: %w", err)
	}
	selecting := adoption.Selecting(env.Client, func() client.ObjectList { return &appsv1.DaemonSetList{} }, selectorOf)
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&appsv1.DaemonSet{}).
		// As upstream's, it is not woken by a revision that is added: its own it knows, and one that somebody else has made of the
		// same data as another would be merged with that before they could look at it.
		Owns(&appsv1.ControllerRevision{}, builder.WithPredicates(predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }})).
		Watches(&corev1.Pod{}, adoption.Waking(kind, selecting), builder.WithPredicates(adoption.Concerning(kind))).
		Watches(&appsv1.ControllerRevision{}, handler.EnqueueRequestsFromMapFunc(selecting), builder.WithPredicates(adoption.Orphans())).
		Watches(&corev1.Node{}, r.nodeHandler()).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

func selectorOf(ds *appsv1.DaemonSet) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(ds.Spec.Selector)
}

// nodeHandler wakes the DaemonSets which a change of a node concerns: heartbeats of nodes are many, and most DaemonSets
// look at few nodes.
func (r *Reconciler) nodeHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(ctx context.Context, q queue, concerned func(*Eligibility) bool) {
		var list appsv1.DaemonSetList
		if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Listing daemon sets")
			return
		}
		for i := range list.Items {
			if concerned(NewEligibility(&list.Items[i])) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
	}
	runsOrMay := func(ctx context.Context, obj client.Object) func(*Eligibility) bool {
		return func(e *Eligibility) bool {
			run, keep := e.Of(klog.FromContext(ctx), obj.(*corev1.Node))
			return run || keep
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, q, runsOrMay(ctx, e.Object)) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, q, runsOrMay(ctx, e.Object)) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if sameToDaemons(before, after) {
				return
			}
			wake(ctx, q, func(e *Eligibility) bool {
				oldRun, oldKeep := e.Of(klog.FromContext(ctx), before)
				run, keep := e.Of(klog.FromContext(ctx), after)
				return run != oldRun || keep != oldKeep
			})
		},
	}
}
