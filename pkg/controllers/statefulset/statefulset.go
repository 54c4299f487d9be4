// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package statefulset runs pods that keep their name and their volumes. Touch it when a pod has the wrong identity
// (identity.go) or claims (claims.go, retention.go), is made or deleted out of turn (plan.go), an update takes a wrong step
// (rolling.go), a template is lost or mistaken for another (revision.go), or the status is off (status.go).
package statefulset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/adoption"
	"minik8s.io/minik8s/pkg/controllers/internal/deletion"
	"minik8s.io/minik8s/pkg/controllers/ownwrites"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

var (
	kind    = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	podKind = corev1.SchemeGroupVersion.WithKind("Pod")
)

// Reconciler works on one StatefulSet at a time. It has to be behind a setup.Env.Barrier.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events record.EventRecorder
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	if err := setup.Register(mostUnavailable, unavailableReplicas); err != nil {
		return err
	}
	r := &Reconciler{Client: env.Client, Live: env.Live, Events: env.Events, Clock: env.Clock}
	selecting := adoption.Selecting(env.Client, func() client.ObjectList { return &appsv1.StatefulSetList{} }, selectorOf)
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&appsv1.StatefulSet{}).
		Watches(&corev1.Pod{}, adoption.Waking(kind, selecting), builder.WithPredicates(adoption.Concerning(kind))).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.usersOf), builder.WithPredicates(deletion.Only())).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(r))
}

func selectorOf(set *appsv1.StatefulSet) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(set.Spec.Selector)
}

// usersOf returns the sets which a claim that is gone belonged to: a pod may wait for it to go, or for a new one.
func (r *Reconciler) usersOf(ctx context.Context, gone client.Object) []reconcile.Request {
	return ownwrites.EnqueueFor(ctx, r.Client, &appsv1.StatefulSetList{}, func(s *appsv1.StatefulSet) bool { return UsesClaim(s, gone.GetName()) }, client.InNamespace(gone.GetNamespace()))
}
