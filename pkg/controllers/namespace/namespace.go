// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package namespace empties a namespace that was deleted: first its pods, then every other resource that discovery knows,
// and at last it lets the API server remove the namespace itself. Touch it when a namespace stays Terminating.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/deletion"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Reconciler works on one namespace at a time.
type Reconciler struct {
	// Client reads and finalizes namespaces.
	Client client.Client
	// Live reads namespaces past the cache: what is deleted rests on the namespace being deleted at this moment.
	Live client.Reader
	// Metadata lists and deletes the contents.
	Metadata metadata.Interface
	// Discover lists the namespaced resources of the API server; with an error it may still return part of them.
	Discover func(context.Context) (Resources, error)
	// Clock is the source of time.
	Clock clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	meta, err := metadata.NewForConfigAndClient(metadata.ConfigFor(env.RESTConfig), env.HTTPClient)
	if err != nil {
		return fmt.Errorf("creating the metadata client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(env.RESTConfig, env.HTTPClient)
	if err != nil {
		return fmt.Errorf("creating the discovery client: %w", err)
	}
	r := &Reconciler{Client: env.Client, Live: env.Live, Metadata: meta, Discover: discover(disco), Clock: env.Clock}
	options := env.Options()
	options.RateLimiter = retries()
	terminating := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil })
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Namespace{}, builder.WithPredicates(terminating)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.lastPods), builder.WithPredicates(deletion.Only())).
		WithOptions(options).
		Complete(env.Barrier.PerRequest(r))
}

// A pass that failed is tried again after a time that doubles up to a maximum. They are upstream's: a namespace that waits for an
// API which does not answer goes within a minute once it does.
const (
	retryDelay    = 5 * time.Millisecond
	maxRetryDelay = time.Minute
)

func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryDelay, maxRetryDelay)
}

// lastPods maps a pod that is gone to its namespace if that is being deleted: the last pod is what the rest waits for.
func (r *Reconciler) lastPods(ctx context.Context, pod client.Object) []reconcile.Request {
	key := types.NamespacedName{Name: pod.GetNamespace()}
	var ns corev1.Namespace
	if err := r.Client.Get(ctx, key, &ns, client.UnsafeDisableDeepCopy); err != nil || ns.DeletionTimestamp == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// Reconcile deletes what is in the namespace of req and finalizes it once nothing is left.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ns := &corev1.Namespace{}
	if err := r.Live.Get(ctx, req.NamespacedName, ns); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		return reconcile.Result{}, nil
	}
	result := r.deleteContent(ctx, ns)
	status := *ns.Status.DeepCopy()
	status.Phase = corev1.NamespaceTerminating
	status.Conditions = conditions(status.Conditions, result, r.Clock.Now())
	if !equality.Semantic.DeepEqual(status, ns.Status) {
		ns.Status = status
		if err := r.Client.Status().Update(ctx, ns); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	if err := result.err(); err != nil {
		return reconcile.Result{}, fmt.Errorf("deleting the contents of namespace %q: %w", ns.Name, err)
	}
	if result.estimate > 0 {
		// Pods mostly end well before their grace period does.
		return reconcile.Result{RequeueAfter: result.estimate/2 + time.Second}, nil
	}
	return reconcile.Result{}, r.finalize(ctx, ns)
}

// finalize takes this controller's finalizer away; with the last one the API server removes the namespace.
func (r *Reconciler) finalize(ctx context.Context, ns *corev1.Namespace) error {
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	if err := r.Client.SubResource("finalize").Update(ctx, ns); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("finalizing namespace %q: %w", ns.Name, err)
	}
	return nil
}

// outcome is what one pass over the contents of a namespace found.
type outcome struct {
	discovery  error
	versions   error
	deletion   []error
	remaining  map[string]int
	finalizers map[string]int
	estimate   time.Duration
}

// add takes in what was found of one resource.
func (o *outcome) add(part outcome) {
	if o.remaining == nil {
		o.remaining, o.finalizers = map[string]int{}, map[string]int{}
	}
	maps.Copy(o.remaining, part.remaining)
	for finalizer, n := range part.finalizers {
		o.finalizers[finalizer] += n
	}
	o.estimate = max(o.estimate, part.estimate)
}

func (o outcome) err() error {
	return errors.Join(append([]error{o.discovery, o.versions}, o.deletion...)...)
}
