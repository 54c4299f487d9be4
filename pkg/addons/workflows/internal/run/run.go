// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package run runs WorkflowRuns: it asks the engine what is next, writes down where the run is, and has done what is to be done outside,
// in this order. Touch it to change what is kept of a run, or how its actions are done.
package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	workflowsv1alpha1 "minik8s.io/minik8s/pkg/addons/apis/workflows/v1alpha1"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/call"
	"minik8s.io/minik8s/pkg/addons/workflows/internal/engine"
)

const (
	// batch is how many tasks without effects are gone through between two writes.
	batch = 100
	// turns is how often a run may go on at once before others have theirs.
	turns = 20
	// workers is how many runs are advanced at the same time; calls do not count.
	workers = 8
	// statusInterval is how long the status of a run that goes on at once may be behind: a person does not see more.
	statusInterval = 100 * time.Millisecond
	// pendingLook is how often it is looked whether there is the Workflow of a run.
	pendingLook = time.Second
)

// Reconciler advances WorkflowRuns.
type Reconciler struct {
	client   client.Client
	reader   client.Reader // past the cache
	pods     kubernetes.Interface
	recorder events.EventRecorder
	journals journals
	caller   *call.Caller
	// lifetime ends with the controller; calls are made in it.
	lifetime context.Context
	calls    sync.WaitGroup
	woken    chan event.TypedGenericEvent[types.NamespacedName]

	mu   sync.Mutex
	live map[types.NamespacedName]*execution // guarded by mu; what is in it belongs to the worker that has the run
}

// Setup adds the controller of WorkflowRuns to a manager. Calls end with ctx.
func Setup(ctx context.Context, mgr ctrl.Manager, caller *call.Caller) error {
	pods, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("making a client for logs: %w", err)
	}
	r := &Reconciler{
		client: mgr.GetClient(), reader: mgr.GetAPIReader(), pods: pods, recorder: mgr.GetEventRecorder("workflows"),
		journals: journals{client: mgr.GetClient(), reader: mgr.GetAPIReader()}, caller: caller, lifetime: ctx,
		woken: make(chan event.TypedGenericEvent[types.NamespacedName]), live: map[types.NamespacedName]*execution{},
	}
	// A controller that has ended has no call on its way.
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		r.calls.Wait()
		return nil
	})); err != nil {
		return err
	}
	toRequest := handler.TypedFuncs[types.NamespacedName, ctrl.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[types.NamespacedName], q workqueue) {
			q.Add(ctrl.Request{NamespacedName: e.Object})
		},
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("workflowrun").
		For(&workflowsv1alpha1.WorkflowRun{}).
		WatchesRawSource(source.TypedChannel(r.woken, toRequest)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile takes a run as far as it goes.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var seen workflowsv1alpha1.WorkflowRun
	if err := r.client.Get(ctx, req.NamespacedName, &seen); err != nil {
		if apierrors.IsNotFound(err) {
			r.drop(req.NamespacedName, errUnwanted)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !seen.DeletionTimestamp.IsZero() {
		r.drop(req.NamespacedName, errUnwanted)
		return ctrl.Result{}, nil
	}
	if seen.Status.Phase.Finished() {
		r.drop(req.NamespacedName, errUnwanted)
		return r.expire(ctx, &seen)
	}
	x, wait, err := r.execution(ctx, req.NamespacedName, &seen)
	if err != nil || x == nil {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	defer func() { x.secrets = nil }()
	result, err := r.advance(ctx, x)
	if err != nil {
		// What is in memory may be ahead of what is written: begin anew from that. What is on its way is waited for still.
		x.state = nil
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return ctrl.Result{RequeueAfter: time.Millisecond}, nil
		}
	}
	return result, err
}

// expire deletes a run that has been over for as long as it says.
func (r *Reconciler) expire(ctx context.Context, run *workflowsv1alpha1.WorkflowRun) (ctrl.Result, error) {
	if run.Spec.TTLSecondsAfterFinished == nil || run.Status.EndTime == nil {
		return ctrl.Result{}, nil
	}
	left := time.Until(run.Status.EndTime.Add(time.Duration(*run.Spec.TTLSecondsAfterFinished) * time.Second))
	if left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	err := r.client.Delete(ctx, run, client.Preconditions{UID: &run.UID}, client.PropagationPolicy("Background"))
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// advance takes a run as far as it goes: what has come of its actions, the next state, its write, the next actions.
func (r *Reconciler) advance(ctx context.Context, x *execution) (ctrl.Result, error) {
	for range turns {
		x.collect()
		turn := engine.Advance(ctx, x.doc, x.state, x.facts())
		x.log = latest(append(x.log, recordsOf(turn.Log)...))
		err := r.write(ctx, x, turn)
		if reason, ok := hopeless(err); ok {
			// The state that cannot be written is given up for one that can: it is small.
			x.fail(reason)
			err = r.write(ctx, x, engine.Turn{})
		}
		if err != nil {
			return ctrl.Result{}, err
		}
		x.follow(r, turn.Actions)
		r.prune(ctx, x)
		if x.state.End != nil {
			r.announce(x.object)
			r.drop(x.name, errUnwanted)
			return r.expire(ctx, x.object)
		}
		if turn.Again {
			continue
		}
		return ctrl.Result{RequeueAfter: nextLook(turn.Wake, x.statusDueIn())}, nil
	}
	return ctrl.Result{RequeueAfter: time.Millisecond}, nil
}

// nextLook returns in how long a run is to be looked at: at an instant, unless it is zero, or when its status is due, unless that is
// negative. 0 is never.
func nextLook(wake time.Time, due time.Duration) time.Duration {
	if wake.IsZero() && due < 0 {
		return 0
	}
	look := due
	if until := time.Until(wake); due < 0 || !wake.IsZero() && until < due {
		look = until
	}
	return max(look, time.Millisecond)
}

// hopeless tells whether a write fails however often it is tried, because there is too much to write.
func hopeless(err error) (*engine.Error, bool) {
	var large tooLarge
	if err == nil {
		return nil, false
	}
	if errors.As(err, &large) || apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "too large") {
		return engine.NewError(engine.Runtime, "what the run has come to cannot be kept: %v", err), true
	}
	return nil, false
}

// announce tells by an event how a run came out.
func (r *Reconciler) announce(run *workflowsv1alpha1.WorkflowRun) {
	for _, c := range run.Status.Conditions {
		if c.Type != workflowsv1alpha1.ConditionSucceeded {
			continue
		}
		kind := corev1.EventTypeNormal
		if run.Status.Phase == workflowsv1alpha1.PhaseFaulted {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(run, nil, kind, c.Reason, "Run", "%s", c.Message)
	}
}

// drop forgets a run, and ends what is on its way for it.
func (r *Reconciler) drop(name types.NamespacedName, cause error) {
	r.mu.Lock()
	x := r.live[name]
	delete(r.live, name)
	r.mu.Unlock()
	if x != nil {
		x.cancel(cause)
	}
}

// wake has a run looked at.
func (r *Reconciler) wake(name types.NamespacedName) {
	select {
	case r.woken <- event.TypedGenericEvent[types.NamespacedName]{Object: name}:
	case <-r.lifetime.Done():
	}
}
