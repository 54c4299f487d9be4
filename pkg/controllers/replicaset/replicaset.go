// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package replicaset keeps the number of pods of a ReplicaSet at its replicas. Touch it when its status is off or it does
// not notice something; how pods are created and deleted is in package replicas.
package replicaset

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/internal/index"
	"minik8s.io/minik8s/pkg/controllers/internal/replicas"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

var kind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// Reconciler works on one ReplicaSet at a time. It has to be behind a setup.Env.Barrier, so
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
	selecting := adoption.Selecting(env.Client, func() client.ObjectList { return &appsv1.ReplicaSetList{} }, selectorOf)
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&appsv1.ReplicaSet{}).
		Watches(&corev1.Pod{}, adoption.Waking(kind, selecting), builder.WithPredicates(adoption.Concerning(kind))).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

func selectorOf(rs *appsv1.ReplicaSet) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(rs.Spec.Selector)
}

// Reconcile claims the pods of the ReplicaSet in req, creates or deletes pods and writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rs := &appsv1.ReplicaSet{}
	if err := r.Client.Get(ctx, req.NamespacedName, rs); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := selectorOf(rs)
	if err != nil {
		// Validation rejects such a selector; trying again cannot help.
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("parsing the selector of replica set %q: %w", req, err))
	}
	keeper := replicas.Keeper{Client: r.Client, Live: r.Live, Events: r.Events, Clock: r.Clock}
	result, err := keeper.Keep(ctx, replicas.Set{
		Object:          rs,
		Kind:            kind,
		Selector:        selector,
		Template:        &rs.Spec.Template,
		Replicas:        wanted(rs),
		MinReadySeconds: rs.Spec.MinReadySeconds,
		Siblings:        func(ctx context.Context) ([]types.UID, error) { return r.siblings(ctx, rs) },
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	status := Status(rs, result.Counts, result.ScaleErr, r.Clock.Now())
	if !equality.Semantic.DeepEqual(rs.Status, status) {
		rs.Status = status
		if err := r.Client.Status().Update(ctx, rs); err != nil && result.ScaleErr == nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	if result.ScaleErr != nil {
		return reconcile.Result{}, result.ScaleErr
	}
	return reconcile.Result{RequeueAfter: result.Recheck}, nil
}

// siblings returns the ReplicaSets of the same Deployment.
func (r *Reconciler) siblings(ctx context.Context, rs *appsv1.ReplicaSet) ([]types.UID, error) {
	ref := metav1.GetControllerOfNoCopy(rs)
	if ref == nil {
		return nil, nil
	}
	list, err := ownwrites.Peek[*appsv1.ReplicaSet](ctx, r.Client, &appsv1.ReplicaSetList{}, index.ControlledBy(rs.Namespace, ref.UID))
	if err != nil {
		return nil, fmt.Errorf("listing related replica sets: %w", err)
	}
	siblings := make([]types.UID, len(list))
	for i := range list {
		siblings[i] = list[i].UID
	}
	return siblings, nil
}

func wanted(rs *appsv1.ReplicaSet) int { return int(ptr.Deref(rs.Spec.Replicas, 1)) }
