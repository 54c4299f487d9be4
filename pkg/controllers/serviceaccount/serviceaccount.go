// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccount gives every active namespace the ServiceAccount "default". Touch it when another account should
// exist everywhere.
package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/deletion"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Name is the account that pods use which name none.
const Name = "default"

// Reconciler keeps the default account of one namespace in being.
type Reconciler struct {
	Client client.Client
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.Namespace{}).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(namespaceOf), builder.WithPredicates(deletion.Only())).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client}))
}

// namespaceOf maps the default account to its namespace.
func namespaceOf(_ context.Context, obj client.Object) []reconcile.Request {
	if obj.GetName() != Name {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.GetNamespace()}}}
}

// Reconcile creates the default account of the namespace in req when it is missing.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var ns corev1.Namespace
	if err := r.Client.Get(ctx, req.NamespacedName, &ns); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ns.Status.Phase != corev1.NamespaceActive {
		return reconcile.Result{}, nil
	}
	var account corev1.ServiceAccount
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: ns.Name, Name: Name}, &account)
	if err == nil || !apierrors.IsNotFound(err) {
		return reconcile.Result{}, err
	}
	account = corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: Name}}
	err = r.Client.Create(ctx, &account)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return reconcile.Result{}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, fmt.Errorf("creating service account %q in namespace %q: %w", Name, ns.Name, err)
}
