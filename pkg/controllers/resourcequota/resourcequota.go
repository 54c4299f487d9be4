// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package resourcequota keeps the status of ResourceQuotas right: admission adds what new objects use, this controller adds
// up anew when objects go. Touch it when used does not fall or a change of the quota is not seen; what objects use is told by
// package quota.
package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/apis/quota"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

const (
	// resync is how often a quota is added up though nothing is known to have changed: a pod that is overdue on a lost node
	// stops counting without any event.
	resync = 5 * time.Minute
	// rediscover is how often a kind is looked for that is not served, but may be when its definition is created.
	rediscover = 30 * time.Second
)

// ErrNotServed says that the API server does not know a kind.
var ErrNotServed = errors.New("the kind is not served")

// Objects gives the objects that are counted. List returns those of a kind in a namespace, of plain kinds at least the names,
// and an error that is ErrNotServed for a kind which the API server does not know.
type Objects interface {
	List(ctx context.Context, kind quota.Kind, namespace string) ([]runtime.Object, error)
	// Devices is what tells how much claims take.
	Devices() quota.Devices
}

// Reconciler works on one ResourceQuota at a time.
type Reconciler struct {
	Client  client.Client
	Objects Objects
	Clock   clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	objects, err := newInformers(env)
	if err != nil {
		return err
	}
	r := &Reconciler{Client: env.Client, Objects: objects, Clock: env.Clock}
	objects.controller, err = ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.ResourceQuota{}, builder.WithPredicates(respecified())).
		WithOptions(env.Options()).
		Build(env.Barrier.PerRequest(r))
	return err
}

// respecified lets through new quotas and those whose limits have changed. That admission has counted something is no reason
// to add up: the caches do not have the new object yet.
func respecified() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(e.ObjectOld.(*corev1.ResourceQuota).Spec, e.ObjectNew.(*corev1.ResourceQuota).Spec)
		},
	}
}

// Reconcile adds up what the objects of the namespace use and writes it to the quota in req. The write fails if admission
// has counted an object since the quota was read.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	q := &corev1.ResourceQuota{}
	if err := r.Client.Get(ctx, req.NamespacedName, q); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	next := resync
	sum, err := quota.Sum(&q.Spec, r.Objects.Devices(), func(kind quota.Kind) ([]runtime.Object, error) {
		objects, err := r.list(ctx, kind, q.Namespace)
		if errors.Is(err, ErrNotServed) {
			next = rediscover
			if !kind.Plain {
				// A built-in kind: what is not served cannot be used either. Of a name that somebody has made up
				// nothing is said until it is known.
				return nil, nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		return objects, nil
	}, r.Clock.Now())
	if err != nil && next == rediscover {
		ctrl.LoggerFrom(ctx).V(4).Info("Some kinds cannot be counted yet", "reason", err.Error())
		err = withoutNotServed(err)
	}
	status := Status(q, sum)
	if !equality.Semantic.DeepEqual(q.Status.Hard, status.Hard) || q.Status.Used == nil || !quota.Equal(q.Status.Used, status.Used) {
		q.Status = status
		err = errors.Join(err, client.IgnoreNotFound(r.Client.Status().Update(ctx, q)))
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("adding up quota %q: %w", req, err)
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// list lists the objects of a kind. It does not wait long for the first of them: some can never be listed, such as custom resources
// whose conversion fails, and the pass has other kinds to count.
func (r *Reconciler) list(ctx context.Context, kind quota.Kind, namespace string) ([]runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	return r.Objects.List(ctx, kind, namespace)
}

// Status returns the status of a quota of whose names the given ones were added up. The others keep what they had.
func Status(q *corev1.ResourceQuota, sum corev1.ResourceList) corev1.ResourceQuotaStatus {
	used := quota.Mask(q.Status.Used, q.Spec.Hard)
	maps.Copy(used, sum)
	return corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: used}
}

// withoutNotServed returns what else is wrong when some kinds are not served.
func withoutNotServed(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if errors.Is(err, ErrNotServed) {
			return nil
		}
		return err
	}
	var rest []error
	for _, e := range joined.Unwrap() {
		if !errors.Is(e, ErrNotServed) {
			rest = append(rest, e)
		}
	}
	return errors.Join(rest...)
}
