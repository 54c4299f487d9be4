// Copyright 2026 The minik8s Authors
// SPDX-License-Identifier: Apache-2.0

// Package podcertificaterequestcleaner deletes PodCertificateRequests, by which kubelets get certificates for pods, a
// quarter of an hour after they were made (KEP-4317). Touch it when issuing takes longer.
package podcertificaterequestcleaner

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"minik8s.io/minik8s/pkg/controllers/setup"
)

// threshold is the age at which a request goes, whatever has become of it.
const threshold = 15 * time.Minute

// Reconciler works on one request at a time.
type Reconciler struct {
	Client client.Client
	Clock  clock.PassiveClock
}

// Setup adds the controller to the manager.
func Setup(env setup.Env) error {
	return ctrl.NewControllerManagedBy(env.Manager).
		Named(env.Name).
		For(&certificatesv1.PodCertificateRequest{}).
		WithOptions(env.Options()).
		Complete(env.Barrier.PerRequest(&Reconciler{Client: env.Client, Clock: env.Clock}))
}

// Reconcile deletes the request in req if it is old, or comes back when it will be.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var request certificatesv1.PodCertificateRequest
	if err := r.Client.Get(ctx, req.NamespacedName, &request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if left := request.CreationTimestamp.Add(threshold).Sub(r.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := r.Client.Delete(ctx, &request, client.Preconditions{UID: &request.UID}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("deleting the pod certificate request %q: %w", req, err)
	}
	return reconcile.Result{}, nil
}
