// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package horizontalpodautoscaler gives workloads as many pods as metrics ask for. Touch it when it arrives at another number than
// upstream's controller: by one metric (proposal.go, usage.go), of several (outcome.go), within bounds and rates (bounds.go,
// behavior.go, history.go); or when it says something else about it (pass.go).
package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// callTimeout bounds each call: of metrics, of scales, of discovery. What is late is as good as missing.
const callTimeout = 10 * time.Second

// Reconciler works on one HorizontalPodAutoscaler at a time.
type Reconciler struct {
	Client  client.Client
	Scales  scale.ScalesGetter
	Kinds   *Kinds
	Metrics *Metrics
	Events  record.EventRecorder
	Clock   clock.PassiveClock
	// Settings are complete: an autoscaler has fields for some of what should differ.
	Settings setup.Settings

	selectors selectors

	mu sync.Mutex
	// histories has what is remembered of each autoscaler. The map is guarded by mu; each history belongs to who has the request.
	histories map[types.NamespacedName]*history
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	if err := setup.Register(reconciliations, reconciliationDuration, computations, computationDuration, controlled, desiredReplicas); err != nil {
		return err
	}
	r, err := newReconciler(env)
	if err != nil {
		return err
	}
	options, period := env.Options(), env.Settings.HorizontalPodAutoscalerSyncPeriod.Duration
	// A pass that failed is not repeated sooner than one that did not, and never later.
	options.RateLimiter = workqueue.NewTypedItemFastSlowRateLimiter[reconcile.Request](period, period, 0)
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		// Its own writes of the status are no reason for another look.
		For(&autoscalingv2.HorizontalPodAutoscaler{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(options).
		Complete(env.Barrier.PerRequest(r))
}

// Reconcile looks at the autoscaler in req, and again after the period.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := r.Client.Get(ctx, req.NamespacedName, h); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading the autoscaler: %w", err)
	}
	before, start := h.Status.DeepCopy(), r.Clock.Now()
	p := &pass{Reconciler: r, hpa: h, history: r.historyOf(h)}
	err := p.run(ctx)
	err = errors.Join(err, p.writeStatus(ctx, before))
	countPass(p.from, p.to, err, r.Clock.Since(start))
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.Settings.HorizontalPodAutoscalerSyncPeriod.Duration}, nil
}

// historyOf returns what is remembered of an autoscaler: nothing of one that had the same name.
func (r *Reconciler) historyOf(h *autoscalingv2.HorizontalPodAutoscaler) *history {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(h)
	known, ok := r.histories[name]
	if !ok {
		controlled.Inc()
	}
	if !ok || known.uid != h.UID {
		if r.histories == nil {
			r.histories = map[types.NamespacedName]*history{}
		}
		r.histories[name] = &history{uid: h.UID}
	}
	return r.histories[name]
}

// forget drops what is remembered of an autoscaler that is gone.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.selectors.drop(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.histories[name]; !ok {
		return
	}
	delete(r.histories, name)
	controlled.Dec()
	desiredReplicas.DeleteLabelValues(name.Namespace, name.Name)
}
