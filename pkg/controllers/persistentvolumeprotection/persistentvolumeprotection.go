// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolumeprotection keeps a PersistentVolume that was deleted while it is bound. Touch it when volumes go
// too early or stay.
package persistentvolumeprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/internal/protection"
	"minik8s.io/minik8s/pkg/controllers/setup"
)

// Finalizer is what a protected volume has.
const Finalizer = "kubernetes.io/pv-protection"

// Reconciler protects one volume.
type Reconciler struct {
	Client client.Client
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&corev1.PersistentVolume{}).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client}))
}

// Reconcile looks at the volume in req.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var volume corev1.PersistentVolume
	if err := r.Client.Get(ctx, req.NamespacedName, &volume); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{}, protection.Keep(ctx, r.Client, &volume, Finalizer, func(context.Context) (bool, error) {
		return volume.Status.Phase == corev1.VolumeBound, nil
	})
}
