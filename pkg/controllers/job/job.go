// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package job runs the pods of a Job until enough of them have succeeded or too many have failed. Touch it when a Job
// ends too early, too late or with the wrong reason (verdict.go, policy.go), creates or deletes the wrong pods
// (plan.go, pod.go), or counts them wrongly (tally.go).
package job

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

var kind = batchv1.SchemeGroupVersion.WithKind("Job")

// batchPeriod is how long events of pods and of the status are gathered before the Job is looked at: its pods tend to
// change together, and each look may write the status. Upstream takes a second; a Job waits for it in each generation
// of its pods.
const batchPeriod = 100 * time.Millisecond

// A pass that failed is tried again after a time that doubles up to a maximum. They are upstream's, because each try to
// create a pod that is over quota is an event which users see.
const (
	retryDelay    = time.Second
	maxRetryDelay = time.Minute
	// lastRetryDelay is the time between tries when a deadline comes closer than maxRetryDelay.
	lastRetryDelay = 10 * time.Second
)

// Reconciler works on one Job at a time. It has to be behind a setup.Env.Barrier, so
// that no completion is given a second pod.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events record.EventRecorder
	Clock  clock.PassiveClock

	// memories has a *memory for the types.NamespacedName of each Job that is not finished.
	memories sync.Map
}

// Setup adds the controller to the manager, and beside it the one that frees pods whose Job is no more.
func Setup(env setup.Env) error {
	if err := setup.Register(metrics...); err != nil {
		return err
	}
	if err := setUpOrphans(env); err != nil {
		return fmt.Errorf("setting up the clean-up of orphans: %w", err)
	}
	r := &Reconciler{Client: env.Client, Live: env.Live, Events: env.Events, Clock: env.Clock}
	selecting := adoption.Selecting(env.Client, func() client.ObjectList { return &batchv1.JobList{} }, selectorOf)
	options := env.Options()
	options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryDelay, maxRetryDelay)
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		Watches(&batchv1.Job{}, jobHandler()).
		Watches(&corev1.Pod{}, batched(adoption.Waking(kind, selecting)), builder.WithPredicates(adoption.Concerning(kind))).
		WithOptions(options).
		Complete(env.Barrier.PerRequest(r))
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// jobHandler looks at a Job at once when its spec has changed, and a little later when only its status has.
func jobHandler() handler.EventHandler {
	self := &handler.EnqueueRequestForObject{}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if job, ok := e.Object.(*batchv1.Job); ok && isManagedElsewhere(job) {
				external.WithLabelValues(*job.Spec.ManagedBy).Inc()
			}
			self.Create(ctx, e, q)
		},
		DeleteFunc: self.Delete,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetGeneration() == e.ObjectNew.GetGeneration() {
				q = batchingQueue{q}
			}
			self.Update(ctx, e, q)
		},
	}
}

// batched lets a handler of pods wake Jobs after batchPeriod only.
func batched(h handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			countTracked(nil, e.Object)
			h.Create(ctx, e, batchingQueue{q})
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			countTracked(e.ObjectOld, e.ObjectNew)
			h.Update(ctx, e, batchingQueue{q})
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			countTracked(e.Object, nil)
			h.Delete(ctx, e, batchingQueue{q})
		},
	}
}

// batchingQueue adds after batchPeriod. The queue keeps the earliest time it was told for a Job.
type batchingQueue struct{ queue }

func (q batchingQueue) Add(r reconcile.Request) { q.AddAfter(r, batchPeriod) }

func selectorOf(job *batchv1.Job) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(job.Spec.Selector)
}

func isIndexed(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

func isSuspended(job *batchv1.Job) bool { return ptr.Deref(job.Spec.Suspend, false) }

// replacesOnlyFailed reports whether a pod that is being deleted keeps its place until it has ended.
func replacesOnlyFailed(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed) == batchv1.Failed
}

// isManagedElsewhere reports whether another controller has taken the Job over (KEP-4368).
func isManagedElsewhere(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName
}

func isFinished(job *batchv1.Job) bool {
	return trueCondition(job, batchv1.JobComplete) != nil || trueCondition(job, batchv1.JobFailed) != nil
}

// trueCondition returns a copy of the condition if it is there and true.
func trueCondition(job *batchv1.Job, conditionType batchv1.JobConditionType) *batchv1.JobCondition {
	for _, c := range job.Status.Conditions {
		if c.Type == conditionType && c.Status == corev1.ConditionTrue {
			return &c
		}
	}
	return nil
}

// hasFinalizer reports whether the pod is kept until it has been counted.
func hasFinalizer(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}
